#include "kernels/ops/training_checks.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "kernels/core/checks.hpp"

namespace trainbench {

void check_samples(const ModelSpec& spec, const DatasetView& data) {
  require(data.sample == spec.sample, data.name + " has samples of " + to_string(data.sample) +
                                          ", but " + spec.name + " needs " +
                                          to_string(spec.sample));
}

void check_training_data(const ModelSpec& spec, std::int64_t batch, const DatasetView& data) {
  check_samples(spec, data);
  require(data.classes <= spec.classes(), data.name + " has " + std::to_string(data.classes) +
                                              " classes, but " + spec.name + " tells " +
                                              std::to_string(spec.classes()) + " apart");
  require(data.count >= 1, data.name + " is empty");
  require(batch <= data.count,
          "batch " + std::to_string(batch) + " > " + std::to_string(data.count) + " samples");
}

// Messages are made only when something is wrong: this runs between steps that are timed.
void OrderCheck::operator()(std::span<const std::uint32_t> order, std::int64_t first_step,
                            std::int64_t steps) {
  if (first_step < 0 || steps < 0) {
    throw std::invalid_argument("train() needs a first step and a number of steps from 0 up");
  }
  if (order.size() != seen_.size()) {
    throw std::invalid_argument("an order of " + std::to_string(order.size()) +
                                " samples does not fit a data set of " +
                                std::to_string(seen_.size()));
  }
  std::fill(seen_.begin(), seen_.end(), false);
  for (const std::uint32_t sample : order) {
    if (sample >= seen_.size() || seen_[sample]) {
      throw std::invalid_argument("the order must be a permutation of the loaded samples");
    }
    seen_[sample] = true;
  }
}

}  // namespace trainbench
