#include <algorithm>

#include "data/models.hpp"
#include "harness/check/op_suite.hpp"
#include "harness/check/row_checks.hpp"
#include "harness/rows/op_rows.hpp"
#include "harness/run/bench_main.hpp"
#include "kernels/ops/reorder.hpp"

namespace trainbench {
namespace {

// Calls make(backend, precision, tier) for each backend that has the op itself, not borrowed. Rows
// of the reference, which is no contestant and slow, are there for who names them.
template <class Make>
void for_owners(const Session& session, const OpProblem& problem, Tier tier, Make&& make) {
  for (const auto& backend : session.backends()) {
    const OpTable ops = backend->ops();
    const OpTable::Entry* entry = problem.find(ops);
    if (entry == nullptr) continue;
    for (const Precision precision : backend->precisions()) {
      if (!entry->own_in(precision)) continue;
      make(*backend, precision, backend->contends() ? tier : Tier::kFull);
    }
  }
}

bool works_on_images(const OpProblem& problem) {
  const auto is_image = [](const Operand& operand) {
    return operand.name == "y" && operand.shape.rank() == 4;
  };
  return problem.op() != Reorder::kName &&
         std::ranges::any_of(problem.operands(Pass::kForward), is_image);
}

// The row of a layer with its operands at least as far away as in a step: what the rest of the step
// touches lies between two uses. Without it, a small layer's operands are still in the nearest
// caches.
OpRow cold(OpRow row, double footprint) {
  row.axes.emplace_back("cache:cold");
  row.options = [of_row = row.options, footprint](Session& session, const Backend& backend,
                                                  Precision precision) {
    CaseOptions options = of_row(session, backend, precision);
    options.footprint = footprint;
    return options;
  };
  return row;
}

// The row, and, where the backend keeps images in forms of its own, one with images in plain NHWC,
// as a user's own data would come: in the default tier at the shapes of the models' layers only,
// which tell enough.
void add_with_plain(const OpRow& row, const Backend& backend, Precision precision,
                    std::vector<Row>& rows) {
  rows.push_back(make_op_row(row, backend, precision));
  if (!backend.own_layouts() || !works_on_images(*row.problem)) return;
  OpRow plain = row;
  plain.axes.emplace_back("layout:nhwc");
  if (row.family == "op") plain.tier = Tier::kFull;
  plain.options = [of_row = row.options](Session& session, const Backend& own, Precision in) {
    CaseOptions options;
    if (of_row) options.input_gradient = of_row(session, own, in).input_gradient;
    options.plain = true;
    return options;
  };
  rows.push_back(make_op_row(plain, backend, precision));
}

void add_op_rows(const Session& session, std::vector<Row>& rows) {
  for (const OpSuite& suite : make_op_suites()) {
    const auto shared = std::make_shared<const OpSuite>(suite);
    for (const OpPoint& point : suite.timed) {
      for (const Pass pass : point.problem->passes()) {
        for_owners(session, *point.problem, point.tier,
                   [&](const Backend& backend, Precision precision, Tier tier) {
                     const auto check = [shared, &backend, precision, pass](Session& running) {
                       check_op(running, *shared, backend, precision, pass);
                     };
                     add_with_plain({"op", suite.op, point.problem, pass, point.axes, tier,
                                     point.batch, check, nullptr},
                                    backend, precision, rows);
                   });
      }
    }
  }
}

// The published model is in the default tier; its other published sizes are in the full one.
void add_layer_rows(const Session& session, const ModelEntry& entry, const ModelAxes& axes,
                    Tier tier, std::vector<Row>& rows) {
  const ModelSpec spec = entry.build(axes);
  const std::int64_t batch = entry.default_batch;
  std::vector<std::string> names = {axis("batch", batch)};
  for (const ModelAxis& value : axes) names.push_back(axis(value.name, value.value));
  const std::vector<StepOp> ops = step_ops(spec, batch);
  // Cold, samples come from anywhere in the data set.
  const std::vector<StepOp> cold_ops = step_ops(spec, batch, entry.samples);
  const double footprint = step_footprint(ops);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const StepOp& op = ops[i];
    for (const Pass pass : op.passes) {
      for_owners(session, *op.problem, tier,
                 [&](const Backend& backend, Precision precision, Tier row_tier) {
                   const auto options = [spec, batch, op](Session& running, const Backend& own,
                                                          Precision in) {
                     return options_in_model(running, spec, batch, batch, op, own, in);
                   };
                   OpRow row{"layer",    entry.name + "." + op.name,
                             op.problem, pass,
                             names,      row_tier,
                             batch,      nullptr,
                             options};
                   add_with_plain(row, backend, precision, rows);
                   row.problem = cold_ops[i].problem;
                   rows.push_back(make_op_row(cold(row, footprint), backend, precision));
                 });
    }
  }
}

std::vector<Row> layer_program_rows(const Session& session) {
  std::vector<Row> rows;
  add_op_rows(session, rows);
  for (const ModelEntry& entry : models()) {
    for (const ModelAxes& axes : entry.variants) {
      const Tier tier = axes == entry.variants.front() ? Tier::kDefault : Tier::kFull;
      add_layer_rows(session, entry, axes, tier, rows);
    }
  }
  return rows;
}

}  // namespace
}  // namespace trainbench

int main(int argc, char** argv) {
  const trainbench::ProgramInfo info = {
      .name = "bench_layers",
      .description = "Times isolated ops and the layers of the models, one pass per row.",
      .examples = {
          "bench_layers --benchmark_filter='conv2d/forward'",
          "bench_layers --benchmark_filter='layer/cifar10_cnn' --benchmark_out=layers.json"}};
  return trainbench::run_benchmarks(argc, argv, info, trainbench::layer_program_rows);
}
