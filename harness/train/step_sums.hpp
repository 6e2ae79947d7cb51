#pragma once

#include <cstdint>
#include <span>

#include "kernels/core/program.hpp"

namespace trainbench {

struct LossAccuracy {
  double loss = 0, accuracy = 0;  // Means over samples.
};

// Sums over training steps, and their means over samples: a shorter batch counts what it holds.
class StepSums {
 public:
  void add(std::span<const StepMetrics> steps);
  std::int64_t samples() const { return samples_; }
  bool finite() const;  // Else training has diverged: the loss can never come down again.
  LossAccuracy means() const;

 private:
  double loss_ = 0;
  std::int64_t correct_ = 0, samples_ = 0;
};

// Whether a mean loss is still that of guessing among so many classes: nothing was learned.
bool is_guessing(double loss, std::int64_t classes);

}  // namespace trainbench
