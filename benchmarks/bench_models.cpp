#include "data/models.hpp"
#include "harness/check/op_suite.hpp"
#include "harness/rows/model_rows.hpp"
#include "harness/run/bench_main.hpp"

namespace trainbench {
namespace {

// A point of a model and the smallest tiers of its rows. Static, so that names and tiers never
// depend on how fast a machine is.
struct Plan {
  std::string model;
  ModelAxes axes;
  std::int64_t batch;
  Tier step, short_epoch, epoch;
};

std::vector<Plan> plans() {
  constexpr Tier kSmoke = Tier::kSmoke, kDefault = Tier::kDefault, kFull = Tier::kFull;
  std::vector<Plan> list = {
      // The published models: MLP epochs and 50 steps of the CNN in ten minutes, its epochs in
      // full.
      {"mnist_mlp", {{"depth", 1}, {"width", 128}}, 32, kSmoke, kDefault, kDefault},
      {"mnist_mlp", {{"depth", 2}, {"width", 1000}}, 32, kDefault, kDefault, kDefault},
      {"cifar10_cnn", {{"width", 32}}, 100, kDefault, kDefault, kFull},
      {"cifar10_cnn", {{"width", 8}}, 100, kSmoke, kFull, kFull},
  };
  const auto sweep = [&list](const std::string& model, const ModelAxes& axes, std::int64_t batch) {
    list.push_back({model, axes, batch, kFull, kFull, kFull});
  };
  // Where a GPU starts to pay off: width, depth and batch.
  for (const std::int64_t width : {32, 100, 250, 500, 1000}) {
    for (const std::int64_t batch : {32, 128}) {
      sweep("mnist_mlp", {{"depth", 1}, {"width", width}}, batch);
    }
  }
  for (const std::int64_t depth : {1, 4, 20}) {
    for (const std::int64_t width : {50, 500}) {
      if (depth == 1 && width == 500) continue;  // In the sweep of widths.
      sweep("mnist_mlp", {{"depth", depth}, {"width", width}}, 32);
    }
  }
  for (const std::int64_t batch : {1, 10, 512}) sweep("cifar10_cnn", {{"width", 32}}, batch);
  for (const std::int64_t width : {16, 64}) sweep("cifar10_cnn", {{"width", width}}, 100);
  return list;
}

std::vector<Row> model_program_rows(const Session& session) {
  constexpr std::int64_t kShortEpoch = 50;
  const auto data = std::make_shared<DataCache>();
  std::vector<Row> rows;
  for (const Plan& plan : plans()) {
    const ModelEntry& entry = find_model(plan.model);
    const ModelPoint point{&entry, entry.axes(plan.axes), plan.batch};
    const ModelSpec spec = point.spec();
    for (const auto& backend : session.backends()) {
      if (!can_train(*backend, spec)) continue;
      for (const Precision precision : backend->precisions()) {
        for (const ProgramVariant& variant : backend->variants()) {
          for (const ModelRow& row :
               {ModelRow{"step", point, 0, plan.step, variant},
                ModelRow{"epoch", point, kShortEpoch, plan.short_epoch, variant},
                ModelRow{"epoch", point, 0, plan.epoch, variant}}) {
            rows.push_back(make_model_row(row, *backend, precision, data));
          }
        }
      }
    }
  }
  return rows;
}

}  // namespace
}  // namespace trainbench

int main(int argc, char** argv) {
  const trainbench::ProgramInfo info = {
      .name = "bench_models",
      .description = "Times training steps and full training epochs of whole models on real data.",
      .examples = {
          "bench_models --benchmark_filter='epoch/mnist_mlp' --benchmark_out=mlp.json",
          "bench_models --benchmark_filter='^epoch/cifar10_cnn/train/openblas/fp32/batch:100/"
          "width:32/iterations:1/real_time$'"}};
  return trainbench::run_benchmarks(argc, argv, info, trainbench::model_program_rows);
}
