#pragma once

#include <string>

#include "harness/check/op_suite.hpp"
#include "kernels/ops/pooling.hpp"

namespace trainbench {

// The problems of a pooling op: the CNN's, overlapping windows, one picture, and odd ones.
template <TrainingOp Pool>
OpSuite pooling_suite() {
  constexpr Padding kSame = Padding::kSame, kValid = Padding::kValid;
  OpSuite suite{.op = std::string(Pool::kName), .timed = {}, .checks = {}};
  const auto point = [&suite](std::int64_t batch, std::int64_t size, std::int64_t channels,
                              Window window, Tier tier) {
    suite.timed.push_back({{axis("batch", batch), axis("size", size), axis("channels", channels),
                            axis("window", window.size), axis("stride", window.stride)},
                           make_problem<Pool>({batch, size, size, channels, window}),
                           tier,
                           batch});
  };
  const auto odd = [&suite](std::int64_t batch, Shape image, Window window) {
    suite.checks.push_back(make_problem<Pool>({batch, image[0], image[1], image[2], window}));
  };
  point(8, 16, 16, {2, 2, kValid}, Tier::kSmoke);
  point(100, 32, 32, {2, 2, kValid}, Tier::kDefault);
  point(100, 16, 64, {2, 2, kValid}, Tier::kDefault);
  point(100, 32, 32, {3, 2, kSame}, Tier::kFull);
  point(1, 32, 32, {2, 2, kValid}, Tier::kFull);
  odd(2, {6, 8, 5}, {2, 2, kValid});
  odd(1, {7, 7, 3}, {2, 2, kSame});
  odd(3, {9, 7, 17}, {3, 2, kSame});
  odd(2, {5, 5, 33}, {3, 1, kSame});
  odd(1, {4, 4, 1}, {4, 4, kValid});
  odd(2, {10, 9, 4}, {2, 3, kValid});
  odd(1, {3, 1, 2}, {2, 1, kSame});
  odd(5, {8, 8, 32}, {2, 2, kValid});
  return suite;
}

}  // namespace trainbench
