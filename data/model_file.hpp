#pragma once

#include <string>

#include "data/tensor_file.hpp"
#include "kernels/core/dataset_view.hpp"
#include "kernels/core/program.hpp"
#include "kernels/ops/model_spec.hpp"

namespace trainbench {

// A model's state as tensors: each parameter under its layer's and its own name ("conv1.w" of
// kernel height x width x in x out, "dense1.w" of in x out, "dense1.bias"), Adam's moments of it as
// "adam.m.conv1.w" and "adam.v.conv1.w", and "adam.step", the updates made so far.
TensorFile state_to_tensors(const ModelSpec& spec, const ModelState& state);

// The weights alone.
TensorFile weights_to_tensors(const ModelSpec& spec, const ModelState& state);

// Appends "samples" (count, height, width, channels) and "labels" (count), both of bytes.
void add_samples(const DatasetView& data, TensorFile& file);

// The reverse. Without any "adam." tensors, as a framework's weights come, moments and updates are
// zero. Throws std::runtime_error for a tensor that is missing, unknown to the model, or of another
// shape or type.
ModelState state_from_tensors(const ModelSpec& spec, const TensorFile& file);

}  // namespace trainbench
