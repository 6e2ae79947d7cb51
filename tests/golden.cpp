#include "tests/golden.hpp"

#include "data/model_file.hpp"
#include "kernels/ops/dropout.hpp"

namespace trainbench::golden {
namespace {

// 1 for what is kept, (steps, batch, elements of a sample).
NamedTensor kept_elements(const Setting& setting, const LayerSpec& layer, std::int64_t elements) {
  const auto* config = layer.config_as<Dropout::Config>();
  const Dropout::Problem problem{.elements = setting.batch * elements,
                                 .rate = config->rate,
                                 .seed = kSeed,
                                 .layer = config->layer};
  std::vector<std::uint8_t> kept;
  for (std::uint32_t step = 0; step < kSteps; ++step) {
    for (std::int64_t i = 0; i < problem.elements; ++i) {
      kept.push_back(Dropout::dropped(problem, step, static_cast<std::uint64_t>(i)) ? 0 : 1);
    }
  }
  return make_tensor<std::uint8_t>(layer.name + ".kept", {kSteps, setting.batch, elements}, kept);
}

}  // namespace

TensorFile inputs(const Setting& setting) {
  const ModelSpec& spec = setting.spec;
  TensorFile file = weights_to_tensors(spec, initial_state(spec, kSeed));
  const std::vector<Shape> shapes = spec.activations();
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    const LayerSpec& layer = spec.layers[i];
    const auto* config = layer.config_as<Dropout::Config>();
    if (config == nullptr) continue;
    file.tensors.push_back(kept_elements(setting, layer, shapes[i].elements()));
    file.tensors.push_back(
        make_tensor<double>(layer.name + ".rate", {1}, std::span(&config->rate, 1)));
  }
  const Dataset data = samples(setting);
  add_samples(data.view(), file);
  return file;
}

}  // namespace trainbench::golden
