#include "data/model_file.hpp"

#include <algorithm>

namespace trainbench {
namespace {

constexpr std::string_view kFirstMoment = "adam.m.", kSecondMoment = "adam.v.", kStep = "adam.step";

std::vector<std::int64_t> extents(const Shape& shape) {
  std::vector<std::int64_t> list;
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) list.push_back(shape[axis]);
  return list;
}

// Copies the tensor to its place; throws when it is not what the model has there.
void take(const ModelSpec& spec, const TensorFile& file, const std::string& name,
          const ModelParameter& parameter, std::vector<float>& destination) {
  const NamedTensor& tensor = file.at(name);
  const NamedTensor wanted{name, std::string(kTensorType<float>), extents(parameter.shape), {}};
  if (tensor.shape != wanted.shape || tensor.type != wanted.type) {
    throw std::runtime_error(name + " is " + tensor.describe() + ", but " + spec.name +
                             " of this size has " + wanted.describe());
  }
  std::ranges::copy(tensor.values<float>(),
                    destination.begin() + static_cast<std::ptrdiff_t>(parameter.offset));
}

// Appends `values`, one per parameter of the model, each tensor's name behind `prefix`.
void add_tensors(const ModelSpec& spec, std::string_view prefix, const std::vector<float>& values,
                 TensorFile& file) {
  for (const ModelParameter& p : spec.parameter_list()) {
    file.tensors.push_back(make_tensor<float>(std::string(prefix) + p.name, extents(p.shape),
                                              std::span(values).subspan(p.offset, p.elements())));
  }
}

}  // namespace

TensorFile weights_to_tensors(const ModelSpec& spec, const ModelState& state) {
  TensorFile file;
  file.metadata = {{"model", spec.name}};
  add_tensors(spec, "", state.parameters, file);
  return file;
}

TensorFile state_to_tensors(const ModelSpec& spec, const ModelState& state) {
  TensorFile file = weights_to_tensors(spec, state);
  file.metadata["format"] = "trainbench state";
  add_tensors(spec, kFirstMoment, state.first_moments, file);
  add_tensors(spec, kSecondMoment, state.second_moments, file);
  file.tensors.push_back(
      make_tensor<std::uint32_t>(std::string(kStep), {1}, std::span(&state.step, 1)));
  return file;
}

void add_samples(const DatasetView& data, TensorFile& file) {
  std::vector<std::int64_t> shape = extents(data.sample);
  shape.insert(shape.begin(), data.count);
  const auto count = static_cast<std::size_t>(data.count);
  const auto elements = static_cast<std::size_t>(data.sample.elements());
  file.tensors.push_back(
      make_tensor<std::uint8_t>("samples", shape, std::span(data.images, count * elements)));
  file.tensors.push_back(
      make_tensor<std::uint8_t>("labels", {data.count}, std::span(data.labels, count)));
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
  for (const ModelParameter& parameter : spec.parameter_list()) {
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
