#include "data/model_file.hpp"

#include <algorithm>

namespace trainbench {
namespace {

constexpr std::string_view kFirstMoment = "adam.m.", kSecondMoment = "adam.v.", kStep = "adam.step";

struct Parameter {
  std::string name;  // "conv1.w".
  std::vector<std::int64_t> shape;
  std::size_t offset = 0, elements = 0;  // Within ModelState's arrays.
};

std::vector<Parameter> parameters_of(const ModelSpec& spec) {
  std::vector<Parameter> parameters;
  const std::vector<Shape> shapes = spec.activations();
  std::size_t offset = 0;
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    if (!spec.layers[i].has_op()) continue;
    const auto problem = spec.layers[i].problem(1, shapes[i], 0);
    for (const Operand& operand : problem->operands(Pass::kForward)) {
      if (operand.role != Role::kParameter) continue;
      Parameter parameter{.name = spec.layers[i].name + "." + std::string(operand.name),
                          .shape = {},
                          .offset = offset,
                          .elements = static_cast<std::size_t>(operand.elements())};
      for (std::size_t axis = 0; axis < operand.shape.rank(); ++axis) {
        parameter.shape.push_back(operand.shape[axis]);
      }
      offset += parameter.elements;
      parameters.push_back(std::move(parameter));
    }
  }
  return parameters;
}

// Copies the tensor to its place; throws when it is not what the model has there.
void take(const ModelSpec& spec, const TensorFile& file, const std::string& name,
          const Parameter& parameter, std::vector<float>& destination) {
  const NamedTensor& tensor = file.at(name);
  if (tensor.shape != parameter.shape || tensor.type != kTensorType<float>) {
    const NamedTensor wanted{name, std::string(kTensorType<float>), parameter.shape, {}};
    throw std::runtime_error(name + " is " + tensor.describe() + ", but " + spec.name +
                             " of this size has " + wanted.describe());
  }
  std::ranges::copy(tensor.values<float>(),
                    destination.begin() + static_cast<std::ptrdiff_t>(parameter.offset));
}

}  // namespace

TensorFile state_to_tensors(const ModelSpec& spec, const ModelState& state) {
  TensorFile file;
  file.metadata = {{"format", "trainbench state"}, {"model", spec.name}};
  const std::vector<Parameter> parameters = parameters_of(spec);
  const auto add = [&](std::string_view prefix, const std::vector<float>& values) {
    for (const Parameter& p : parameters) {
      file.tensors.push_back(make_tensor<float>(std::string(prefix) + p.name, p.shape,
                                                std::span(values).subspan(p.offset, p.elements)));
    }
  };
  add("", state.parameters);
  add(kFirstMoment, state.first_moments);
  add(kSecondMoment, state.second_moments);
  file.tensors.push_back(
      make_tensor<std::uint32_t>(std::string(kStep), {1}, std::span(&state.step, 1)));
  return file;
}

ModelState state_from_tensors(const ModelSpec& spec, const TensorFile& file) {
  const auto count = static_cast<std::size_t>(spec.parameters());
  ModelState state;
  state.parameters.resize(count);
  state.first_moments.resize(count);
  state.second_moments.resize(count);
  const bool has_adam = std::ranges::any_of(
      file.tensors, [](const NamedTensor& tensor) { return tensor.name.starts_with("adam."); });
  std::size_t used = 0;
  for (const Parameter& parameter : parameters_of(spec)) {
    take(spec, file, parameter.name, parameter, state.parameters);
    ++used;
    if (!has_adam) continue;
    take(spec, file, std::string(kFirstMoment) + parameter.name, parameter, state.first_moments);
    take(spec, file, std::string(kSecondMoment) + parameter.name, parameter, state.second_moments);
    used += 2;
  }
  if (has_adam) {
    const auto step = file.at(kStep).values<std::uint32_t>();
    if (step.size() != 1) throw std::runtime_error(std::string(kStep) + " is not one number");
    state.step = step.front();
    ++used;
  }
  if (used != file.tensors.size()) {
    throw std::runtime_error("there are " + std::to_string(file.tensors.size()) + " tensors, but " +
                             spec.name + " of this size has " + std::to_string(used));
  }
  return state;
}

}  // namespace trainbench
