#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/program.hpp"
#include "kernels/ops/model_spec.hpp"

namespace trainbench {

// Six 3x3 'same' convolutions without activation (width, width, 2 width, 2 width, 4 width,
// 4 width channels) with a 2x2 pooling after the second and the fourth, then flatten, dropout 0.3,
// dense 128 ReLU and dense 10, over 32x32x3 pictures. 1,337,002 parameters at width 32.
// Throws std::invalid_argument for a width outside 1 .. 65536.
ModelSpec cifar10_cnn(std::int64_t width = 32);

// Flatten, `depth` times (dense `width` ReLU, dropout 0.2), dense 10, over 28x28x1 pictures.
// Throws std::invalid_argument for a depth outside 1 .. 1000 or a width outside 1 .. 65536.
ModelSpec mnist_mlp(std::int64_t depth = 1, std::int64_t width = 128);

// A number that a model is built from, as it stands in names: "width:32".
struct ModelAxis {
  std::string name;
  std::int64_t value = 0;

  friend bool operator==(const ModelAxis&, const ModelAxis&) = default;
};
using ModelAxes = std::vector<ModelAxis>;

// A model the programs know by name.
struct ModelEntry {
  std::string name;
  std::int64_t default_batch = 1;
  std::int64_t samples = 1;  // Of the published training set.
  // The published ones; the first is the default. All have the same axes in the same order.
  std::vector<ModelAxes> variants;
  // A small relative, for comparing whole trainings with the reference: its batch, and the most
  // that the axis "width" may be.
  std::int64_t small_batch = 1, small_width = 1;
  std::function<ModelSpec(const ModelAxes& axes)> build;  // All axes, in that order.

  // The default axes with `changes` applied; throws std::invalid_argument for an axis that the
  // model lacks.
  ModelAxes axes(const ModelAxes& changes = {}) const;
  ModelSpec spec(const ModelAxes& changes = {}) const { return build(axes(changes)); }
};

const std::vector<ModelEntry>& models();

// Throws std::invalid_argument, listing what there is.
const ModelEntry& find_model(std::string_view name);

// Throws std::invalid_argument unless 1 <= batch <= 2^20.
void check_batch(std::int64_t batch);

// The state before the first step, the same on every machine: weights Glorot-uniform (Glorot and
// Bengio, 2010), in [-limit, limit) with limit = sqrt(6 / (fan_in + fan_out)), where the fans of a
// convolution count its kernel's area; biases and moments zero.
ModelState initial_state(const ModelSpec& spec, std::uint32_t seed);

// Fills `order` with the permutation of 0 .. count - 1 that epoch number `epoch` visits its samples
// in, the same on every machine. Allocates nothing when `order` already has room.
// Throws std::invalid_argument for a count outside 0 .. 2^32 - 1.
void epoch_order(std::int64_t count, std::uint32_t seed, std::uint32_t epoch,
                 std::vector<std::uint32_t>& order);

}  // namespace trainbench
