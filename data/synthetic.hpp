#pragma once

#include <cstdint>

#include "data/dataset.hpp"

namespace trainbench {

// Pictures number first .. first + count - 1 of an endless set that can be learned: every class has
// a random picture of its own, and each sample is the mean of its class's picture and of noise.
// Named "synthetic_<sample>"; the same on every machine.
// Throws std::invalid_argument unless there are elements and 1 .. 256 classes.
Dataset synthetic(const Shape& sample, std::int64_t classes, std::int64_t count, std::uint32_t seed,
                  std::int64_t first = 0);

}  // namespace trainbench
