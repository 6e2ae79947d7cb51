#include "kernels/ops/dense.hpp"

#include <array>

#include "harness/check/op_suite.hpp"

namespace trainbench {
namespace {

OpPoint point(std::int64_t batch, std::int64_t in, std::int64_t out, Tier tier) {
  return {{axis("batch", batch), axis("in", in), axis("out", out)},
          make_problem<Dense>({.batch = batch, .in_features = in, .out_features = out}),
          tier,
          batch};
}

}  // namespace

OpSuite dense_suite() {
  OpSuite suite{.op = "dense", .timed = {}, .checks = {}};
  suite.timed = {
      point(32, 256, 256, Tier::kSmoke),     point(32, 784, 128, Tier::kDefault),
      point(32, 128, 10, Tier::kDefault),    point(32, 1000, 1000, Tier::kDefault),
      point(100, 8192, 128, Tier::kDefault),
  };
  for (const std::int64_t batch : {1, 10, 100, 1000}) {
    for (const std::int64_t width : {64, 256, 1024, 4096}) {
      suite.timed.push_back(point(batch, width, width, Tier::kFull));
    }
  }
  // The products that conv2 .. conv6 of the CNN amount to at batch 100, for holding a convolution
  // by matrix products against the products alone.
  suite.timed.push_back(point(102400, 288, 32, Tier::kFull));
  suite.timed.push_back(point(25600, 288, 64, Tier::kFull));
  suite.timed.push_back(point(25600, 576, 64, Tier::kFull));
  suite.timed.push_back(point(6400, 576, 128, Tier::kFull));
  suite.timed.push_back(point(6400, 1152, 128, Tier::kFull));
  for (const bool bias : {true, false}) {
    for (const bool relu : {true, false}) {
      for (const auto& [batch, in, out] : {std::array<std::int64_t, 3>{1, 1, 1},
                                           {1, 37, 19},
                                           {5, 3, 7},
                                           {33, 65, 10},
                                           {100, 17, 129},
                                           {3, 300, 1}}) {
        suite.checks.push_back(make_problem<Dense>(
            {.batch = batch, .in_features = in, .out_features = out, .bias = bias, .relu = relu}));
      }
    }
  }
  return suite;
}

}  // namespace trainbench
