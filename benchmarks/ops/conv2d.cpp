#include "kernels/ops/conv2d.hpp"

#include "harness/check/op_suite.hpp"

namespace trainbench {
namespace {

OpPoint point(std::int64_t batch, std::int64_t size, std::int64_t in, std::int64_t out,
              std::int64_t kernel, Tier tier) {
  return {{axis("batch", batch), axis("size", size), axis("in", in), axis("out", out),
           axis("kernel", kernel)},
          make_problem<Conv2d>({.batch = batch,
                                .height = size,
                                .width = size,
                                .in_channels = in,
                                .out_channels = out,
                                .window = {kernel, 1, Padding::kSame}}),
          tier,
          batch};
}

std::shared_ptr<const OpProblem> odd(std::int64_t batch, Shape image, std::int64_t out,
                                     Window window, bool bias = true) {
  return make_problem<Conv2d>({.batch = batch,
                               .height = image[0],
                               .width = image[1],
                               .in_channels = image[2],
                               .out_channels = out,
                               .window = window,
                               .bias = bias});
}

}  // namespace

OpSuite conv2d_suite() {
  OpSuite suite{.op = "conv2d", .timed = {}, .checks = {}};
  suite.timed = {
      point(8, 16, 16, 16, 3, Tier::kSmoke),     point(1, 32, 32, 32, 3, Tier::kDefault),
      point(32, 32, 3, 32, 3, Tier::kDefault),   point(100, 32, 32, 32, 3, Tier::kDefault),
      point(100, 16, 64, 64, 3, Tier::kDefault), point(100, 8, 128, 128, 3, Tier::kDefault),
      point(100, 16, 64, 64, 1, Tier::kFull),    point(100, 16, 64, 64, 5, Tier::kFull),
  };
  for (const std::int64_t batch : {1, 10, 32, 512}) {
    for (const std::int64_t channels : {8, 32, 128}) {
      suite.timed.push_back(point(batch, 16, channels, channels, 3, Tier::kFull));
    }
  }
  constexpr Padding kSame = Padding::kSame, kValid = Padding::kValid;
  suite.checks = {
      odd(2, {7, 5, 3}, 5, {3, 1, kSame}),          odd(1, {9, 9, 16}, 33, {3, 1, kSame}),
      odd(3, {8, 8, 10}, 7, {3, 2, kSame}),         odd(2, {9, 7, 4}, 6, {3, 2, kValid}),
      odd(1, {1, 1, 1}, 1, {1, 1, kValid}),         odd(5, {6, 11, 17}, 9, {1, 1, kSame}),
      odd(2, {11, 10, 3}, 8, {5, 3, kSame}),        odd(1, {5, 5, 2}, 3, {5, 1, kValid}),
      odd(3, {4, 4, 33}, 34, {3, 1, kSame}, false), odd(2, {8, 6, 5}, 4, {2, 2, kValid}),
      odd(2, {3, 4, 2}, 3, {7, 1, kSame}),          odd(4, {6, 6, 3}, 2, {1, 2, kSame}),
      odd(2, {7, 9, 3}, 4, {2, 1, kSame}, false),
  };
  return suite;
}

}  // namespace trainbench
