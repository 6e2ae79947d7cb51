// Writes what a peer, a framework beside the suite, trains a model on: the suite's own training
// pictures, order, initial weights, and the loss that says whether it computes the same model.
#include <CLI/CLI.hpp>
#include <iostream>
#include <optional>

#include "data/dataset.hpp"
#include "data/model_file.hpp"
#include "data/models.hpp"
#include "harness/layerwise_program.hpp"
#include "harness/options.hpp"
#include "harness/result_writer.hpp"
#include "harness/row_checks.hpp"

namespace trainbench {
namespace {

constexpr std::int64_t kCheckedSamples = 32;

NamedTensor number(const std::string& name, double value) {
  return make_tensor<double>(name, {1}, std::span<const double>(&value, 1));
}

// Mean loss of the first samples under the weights, without dropout.
double reference_loss(const ModelSpec& spec, const ModelState& state, const DatasetView& data) {
  for (const auto& backend : make_backends()) {
    if (backend->name() != "reference") continue;
    const auto device = backend->open_device({.threads = 1});
    const auto program = make_program(*backend, *device, spec, {.batch = kCheckedSamples});
    program->import_state(state);
    return program->evaluate(data, 0, kCheckedSamples).loss_sum / kCheckedSamples;
  }
  throw std::logic_error("there is no reference backend");
}

double step_flops(const ModelSpec& spec, std::int64_t batch) {
  double flops = 0;
  for (const StepOp& op : step_ops(spec, batch)) {
    for (const Pass pass : op.passes) flops += op.problem->work(pass).flops;
  }
  return flops;
}

TensorFile inputs(const ModelSpec& spec, std::int64_t batch, const TrainTest& data) {
  const ModelState state = initial_state(spec, kRowSeed);
  const DatasetView view = data.train.view();
  TensorFile file = state_to_tensors(spec, state);
  std::erase_if(file.tensors,
                [](const NamedTensor& tensor) { return tensor.name.starts_with("adam."); });
  file.metadata = {{"model", spec.name},
                   {"data", data.train.name},
                   {"checksum", data.train.checksum},
                   {"source", data.train.source}};
  std::vector<std::uint32_t> order;
  epoch_order(view.count, kRowSeed, 0, order);
  const Shape& s = spec.sample;
  file.tensors.push_back(
      make_tensor<std::uint8_t>("samples", {view.count, s[0], s[1], s[2]}, data.train.images));
  file.tensors.push_back(make_tensor<std::uint8_t>("labels", {view.count}, data.train.labels));
  file.tensors.push_back(make_tensor<std::uint32_t>("order", {view.count}, order));
  file.tensors.push_back(number("checked_samples", kCheckedSamples));
  file.tensors.push_back(number("checked_loss", reference_loss(spec, state, view)));
  file.tensors.push_back(number("step_flops", step_flops(spec, batch)));
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
  try {
    app.parse(reversed_arguments(argc, argv));
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    app.exit(error);
    return 1;
  }
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
