// Writes what a peer, a framework beside the suite, trains a model on: the suite's own training
// pictures, order, initial weights, and the loss that says whether it computes the same model.
#include <CLI/CLI.hpp>
#include <iostream>
#include <optional>

#include "data/dataset.hpp"
#include "data/model_file.hpp"
#include "data/models.hpp"
#include "harness/check/row_checks.hpp"
#include "harness/report/result_file.hpp"
#include "harness/run/options.hpp"
#include "harness/run/session.hpp"
#include "program/layerwise_program.hpp"

namespace trainbench {
namespace {

constexpr std::int64_t kCheckedSamples = 32;

NamedTensor number(const std::string& name, double value) {
  return make_tensor<double>(name, {1}, std::span<const double>(&value, 1));
}

TensorFile inputs(const ModelSpec& spec, std::int64_t batch, const TrainTest& data) {
  const ModelState state = initial_state(spec, kRowSeed);
  const DatasetView view = data.train.view();
  Session session({}, make_backends());
  const auto reference = make_program(session.reference(), session.device(session.reference()),
                                      spec, {.batch = batch});
  reference->import_state(state);
  const double loss_sum = reference->evaluate(view, 0, kCheckedSamples).loss_sum;
  std::vector<std::uint32_t> order;
  epoch_order(view.count, kRowSeed, 0, order);
  TensorFile file = weights_to_tensors(spec, state);
  file.metadata.insert({{"data", data.train.name},
                        {"checksum", data.train.checksum},
                        {"source", data.train.source}});
  add_samples(view, file);
  file.tensors.push_back(make_tensor<std::uint32_t>("order", {view.count}, order));
  file.tensors.push_back(number("checked_samples", kCheckedSamples));
  // Mean loss of the first samples under the weights, without dropout.
  file.tensors.push_back(number("checked_loss", loss_sum / kCheckedSamples));
  file.tensors.push_back(number("step_flops", reference->effective_flops()));
  return file;
}

int run(int argc, char** argv) {
  std::string model, data_dir, out;
  std::optional<std::int64_t> width, depth, batch;
  CLI::App app("Writes the inputs of tools/peers as a safetensors file.", "peer_inputs");
  app.add_option("--model", model, "Model")->required();
  app.add_option("--width", width, "As of train");
  app.add_option("--depth", depth, "As of train");
  app.add_option("--batch", batch, "As of train");
  app.add_option("--data_dir", data_dir, "As of train");
  app.add_option("--out", out, "File to write")->required();
  if (const auto status = parse_flags(app, argc, argv)) return *status;
  const ResultFile file(out);
  const ModelEntry& entry = find_model(model);
  ModelAxes changes;
  if (depth) changes.push_back({"depth", *depth});
  if (width) changes.push_back({"width", *width});
  const ModelSpec spec = entry.spec(changes);
  const std::int64_t size = batch.value_or(entry.default_batch);
  check_batch(size);
  file.finish(tensor_file_bytes(inputs(spec, size, load_for_model(spec, data_dir))));
  return 0;
}

}  // namespace
}  // namespace trainbench

int main(int argc, char** argv) {
  try {
    return trainbench::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "peer_inputs: " << error.what() << "\n";
    return 1;
  }
}
