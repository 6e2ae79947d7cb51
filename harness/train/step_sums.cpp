#include "harness/train/step_sums.hpp"

#include <algorithm>
#include <cmath>

namespace trainbench {

void StepSums::add(std::span<const StepMetrics> steps) {
  for (const StepMetrics& step : steps) {
    loss_ += step.loss_sum;
    correct_ += step.correct;
    samples_ += step.samples;
  }
}

bool StepSums::finite() const { return std::isfinite(loss_); }

LossAccuracy StepSums::means() const {
  const auto count = static_cast<double>(std::max<std::int64_t>(samples_, 1));
  return {loss_ / count, static_cast<double>(correct_) / count};
}

bool is_guessing(double loss, std::int64_t classes) {
  constexpr double kNothingLearned = 1e-3;
  return std::abs(loss - std::log(static_cast<double>(classes))) < kNothingLearned;
}

}  // namespace trainbench
