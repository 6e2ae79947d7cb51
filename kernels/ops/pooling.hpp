#pragma once

#include "kernels/core/op.hpp"
#include "kernels/ops/window.hpp"

namespace trainbench {

// What the pooling ops share: a square window that slides over each channel of NHWC images.
class Pooling : public OpObject {
 public:
  struct Problem {
    std::int64_t batch = 1, height = 1, width = 1, channels = 1;
    Window window = {2, 2, Padding::kValid};

    std::int64_t out_height() const { return window.output(height); }
    std::int64_t out_width() const { return window.output(width); }
    Shape x_shape() const { return {batch, height, width, channels}; }
    Shape y_shape() const { return {batch, out_height(), out_width(), channels}; }
  };
  struct Config {
    Window window = {2, 2, Padding::kValid};
  };

  static Problem problem(const Config& config, std::int64_t batch, const Shape& sample) {
    require(sample.rank() == 3,
            "pooling needs height x width x channels, not " + to_string(sample));
    return {batch, sample[0], sample[1], sample[2], config.window};
  }
  static Shape output(const Config& config, const Shape& sample) {
    const Problem p = problem(config, 1, sample);
    return {p.out_height(), p.out_width(), p.channels};
  }
  static void validate(const Problem& p) {
    require(p.batch >= 1 && p.height >= 1 && p.width >= 1 && p.channels >= 1,
            "pooling needs extents of at least 1: " + describe(p));
    p.window.validate(p.height);
    p.window.validate(p.width);
  }
  static std::string describe(const Problem& p) {
    return to_string(p.x_shape()) + " " + p.window.describe();
  }
  static std::vector<Pass> passes(const Problem&) { return {Pass::kForward, Pass::kBackwardData}; }

 protected:
  // Of one pass over the input and the output.
  static double bytes(const Problem& p) {
    return 4.0 * static_cast<double>(p.x_shape().elements() + p.y_shape().elements());
  }
};

}  // namespace trainbench
