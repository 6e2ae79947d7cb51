#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/core/dataset_view.hpp"
#include "kernels/ops/model_spec.hpp"

namespace trainbench {

// What every program holds its input against. All throw std::invalid_argument.

// Samples of the model's shape.
void check_samples(const ModelSpec& spec, const DatasetView& data);
// A data set that the model can be trained on in batches of that many.
void check_training_data(const ModelSpec& spec, std::int64_t batch, const DatasetView& data);

// Tells the permutations of 0 .. count - 1 from other orders. Allocates only when made.
class OrderCheck {
 public:
  explicit OrderCheck(std::int64_t count = 0) : seen_(static_cast<std::size_t>(count)) {}
  void operator()(std::span<const std::uint32_t> order, std::int64_t first_step,
                  std::int64_t steps);

 private:
  std::vector<bool> seen_;
};

}  // namespace trainbench
