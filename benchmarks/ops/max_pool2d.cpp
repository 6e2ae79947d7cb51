#include "kernels/ops/max_pool2d.hpp"

#include "harness/op_suite.hpp"

namespace trainbench {
namespace {

OpPoint point(std::int64_t batch, std::int64_t size, std::int64_t channels, Window window,
              Tier tier) {
  return {
      {axis("batch", batch), axis("size", size), axis("channels", channels),
       axis("window", window.size), axis("stride", window.stride)},
      make_problem<MaxPool2d>(
          {.batch = batch, .height = size, .width = size, .channels = channels, .window = window}),
      tier,
      batch};
}

std::shared_ptr<const OpProblem> odd(std::int64_t batch, Shape image, Window window) {
  return make_problem<MaxPool2d>({.batch = batch,
                                  .height = image[0],
                                  .width = image[1],
                                  .channels = image[2],
                                  .window = window});
}

}  // namespace

OpSuite max_pool2d_suite() {
  constexpr Padding kSame = Padding::kSame, kValid = Padding::kValid;
  OpSuite suite{.op = "max_pool2d", .timed = {}, .checks = {}};
  suite.timed = {
      point(8, 16, 16, {2, 2, kValid}, Tier::kSmoke),
      point(100, 32, 32, {2, 2, kValid}, Tier::kDefault),
      point(100, 16, 64, {2, 2, kValid}, Tier::kDefault),
      point(100, 32, 32, {3, 2, kSame}, Tier::kFull),
      point(1, 32, 32, {2, 2, kValid}, Tier::kFull),
  };
  suite.checks = {
      odd(2, {6, 8, 5}, {2, 2, kValid}), odd(1, {7, 7, 3}, {2, 2, kSame}),
      odd(3, {9, 7, 17}, {3, 2, kSame}), odd(2, {5, 5, 33}, {3, 1, kSame}),
      odd(1, {4, 4, 1}, {4, 4, kValid}), odd(2, {10, 9, 4}, {2, 3, kValid}),
      odd(1, {3, 1, 2}, {2, 1, kSame}),  odd(5, {8, 8, 32}, {2, 2, kValid}),
  };
  return suite;
}

}  // namespace trainbench
