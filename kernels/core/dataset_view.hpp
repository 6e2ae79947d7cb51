#pragma once

#include <cstdint>
#include <string>

#include "kernels/core/tensor.hpp"

namespace trainbench {

// Labelled pictures somebody else owns, in host memory.
struct DatasetView {
  std::string name;                      // "fashion_mnist", as in labels and context.
  Shape sample;                          // Height, width, channels.
  std::int64_t count = 0;                // Pictures.
  std::int64_t classes = 0;              // Labels are 0 .. classes - 1.
  const std::uint8_t* images = nullptr;  // count x height x width x channels.
  const std::uint8_t* labels = nullptr;  // count.

  // Pictures first .. first + length - 1; throws std::out_of_range.
  DatasetView slice(std::int64_t first, std::int64_t length) const;
};

}  // namespace trainbench
