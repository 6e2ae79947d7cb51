#include "kernels/ops/training_checks.hpp"

#include <algorithm>
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

void OrderCheck::operator()(std::span<const std::uint32_t> order, std::int64_t first_step,
                            std::int64_t steps) {
  require(first_step >= 0 && steps >= 0,
          "train() needs a first step and a number of steps that are not negative");
  require(order.size() == seen_.size(), "an order of " + std::to_string(order.size()) +
                                            " samples does not fit a data set of " +
                                            std::to_string(seen_.size()));
  std::fill(seen_.begin(), seen_.end(), false);
  bool permutation = true;
  for (const std::uint32_t sample : order) {
    if (sample >= seen_.size() || seen_[sample]) {
      permutation = false;
      break;
    }
    seen_[sample] = true;
  }
  require(permutation, "the order must be a permutation of the loaded samples");
}

}  // namespace trainbench
