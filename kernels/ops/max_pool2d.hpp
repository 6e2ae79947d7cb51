#pragma once

#include "kernels/core/op.hpp"
#include "kernels/ops/window.hpp"

namespace trainbench {

// y[n,p,q,c] = the largest x of its window; elements outside the image do not take part.
// backward_data adds each dy to the first maximum of its window in row-major order; windows may
// overlap. Backward passes may use what forward left in the state, or find the maximum again.
class MaxPool2d : public OpObject {
 public:
  struct Problem {
    std::int64_t batch = 1, height = 1, width = 1, channels = 1;
    Window window = {2, 2, Padding::kValid};

    std::int64_t out_height() const { return window.output(height); }
    std::int64_t out_width() const { return window.output(width); }
  };
  struct Config {
    Window window = {2, 2, Padding::kValid};
  };
  static constexpr std::string_view kName = "max_pool2d";
  static constexpr bool kExactOnIntegers = true;
  static constexpr std::string_view kLayerType = "MaxPooling2D";

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
            "max_pool2d needs extents of at least 1: " + describe(p));
    p.window.validate(p.height);
    p.window.validate(p.width);
  }
  static std::string describe(const Problem& p) {
    return to_string(Shape{p.batch, p.height, p.width, p.channels}) + " " + p.window.describe();
  }

  static std::vector<Pass> passes(const Problem&) { return {Pass::kForward, Pass::kBackwardData}; }
  static std::vector<Operand> operands(const Problem& p, Pass pass) {
    const Shape x{p.batch, p.height, p.width, p.channels};
    const Shape y{p.batch, p.out_height(), p.out_width(), p.channels};
    if (pass == Pass::kForward) return {{"x", x, Role::kInput}, {"y", y, Role::kOutput}};
    return {{"x", x, Role::kInput}, {"dy", y, Role::kInput}, {"dx", x, Role::kOutput}};
  }
  // Comparisons are no FLOPs. x of the backward pass can be replaced by state: not compulsory.
  static Work work(const Problem& p, Pass) {
    const double inputs = static_cast<double>(p.height * p.width);
    const double outputs = static_cast<double>(p.out_height() * p.out_width());
    return {.bytes = 4.0 * static_cast<double>(p.batch * p.channels) * (inputs + outputs)};
  }
  static std::int64_t reduction_length(const Problem& p, Pass pass) {
    return pass == Pass::kForward ? 1 : p.window.size * p.window.size;
  }

  virtual void forward(Tensor x, Tensor y) = 0;
  virtual void backward_data(Tensor x, Tensor dy, Tensor dx) = 0;

  void run(Pass pass, std::span<const Tensor> t) final {
    if (pass == Pass::kForward) return forward(t[0], t[1]);
    if (pass == Pass::kBackwardData) return backward_data(t[0], t[1], t[2]);
    throw std::logic_error("max_pool2d has no pass " + std::string(to_string(pass)));
  }
};

}  // namespace trainbench
