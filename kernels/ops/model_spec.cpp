#include "kernels/ops/model_spec.hpp"

namespace trainbench {

LayerSpec flatten(std::string name) {
  return {.name = std::move(name),
          .type = "Flatten",
          .config = {},
          .output = [](const Shape& sample) { return Shape{sample.elements()}; },
          .problem = nullptr};
}

std::vector<Shape> ModelSpec::activations() const {
  std::vector<Shape> shapes = {sample};
  for (const LayerSpec& layer : layers) shapes.push_back(layer.output(shapes.back()));
  return shapes;
}

std::int64_t ModelSpec::classes() const { return activations().back().elements(); }

std::vector<ModelParameter> ModelSpec::parameter_list() const {
  const std::vector<Shape> shapes = activations();
  std::vector<ModelParameter> list;
  std::size_t offset = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (!layers[i].has_op()) continue;
    for (const Operand& operand : layers[i].problem(1, shapes[i], 0)->operands(Pass::kForward)) {
      if (operand.role != Role::kParameter) continue;
      list.push_back({i, layers[i].name + "." + std::string(operand.name), operand.shape, offset});
      offset += list.back().elements();
    }
  }
  return list;
}

std::int64_t ModelSpec::parameters() const {
  std::int64_t count = 0;
  for (const ModelParameter& parameter : parameter_list()) count += parameter.shape.elements();
  return count;
}

}  // namespace trainbench
