#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "kernels/core/checks.hpp"

namespace trainbench {

// kValid: only whole windows. kSame: output extent = ceil(input / stride), zero padding (for
// pooling: nothing) split evenly, the odd one at the end, as in TensorFlow.
enum class Padding { kValid, kSame };

// How a square window of taps slides over one spatial axis.
struct Window {
  std::int64_t size = 1;
  std::int64_t stride = 1;
  Padding padding = Padding::kValid;

  std::int64_t output(std::int64_t input) const {
    return padding == Padding::kSame ? (input + stride - 1) / stride : (input - size) / stride + 1;
  }
  // Padding before the first element; the rest comes after the last.
  std::int64_t pad_before(std::int64_t input) const { return pad_total(input) / 2; }
  std::int64_t pad_total(std::int64_t input) const {
    if (padding == Padding::kValid) return 0;
    return std::max<std::int64_t>((output(input) - 1) * stride + size - input, 0);
  }
  // First input element of a window, which may lie in the padding.
  std::int64_t start(std::int64_t input, std::int64_t position) const {
    return position * stride - pad_before(input);
  }
  // first .. last - 1.
  struct Range {
    std::int64_t first = 0, last = 0;
    std::int64_t count() const { return last - first; }
  };
  // The input elements of the window at a position.
  Range inside(std::int64_t input, std::int64_t position) const {
    const std::int64_t begin = start(input, position);
    return {std::max<std::int64_t>(begin, 0), std::min(begin + size, input)};
  }
  // The positions whose windows hold an input element.
  Range covering(std::int64_t input, std::int64_t element) const {
    const std::int64_t padded = element + pad_before(input);
    return {padded < size ? 0 : (padded - size) / stride + 1,
            std::min(output(input), padded / stride + 1)};
  }
  // Taps that meet input, summed over all positions along the axis.
  std::int64_t taps_inside(std::int64_t input) const {
    std::int64_t taps = 0;
    for (std::int64_t position = 0; position < output(input); ++position) {
      taps += inside(input, position).count();
    }
    return taps;
  }
  void validate(std::int64_t input) const {
    require(size >= 1 && stride >= 1, "a window needs size and stride of at least 1");
    require(padding == Padding::kSame || size <= input,
            "window of " + std::to_string(size) + " is larger than the input of " +
                std::to_string(input) + "; use 'same' padding");
  }
  std::string describe() const {
    return "k" + std::to_string(size) + "s" + std::to_string(stride) +
           (padding == Padding::kSame ? "same" : "valid");
  }
};

}  // namespace trainbench
