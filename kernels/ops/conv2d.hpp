#pragma once

#include "kernels/core/op.hpp"
#include "kernels/ops/window.hpp"

namespace trainbench {

// 2-D cross-correlation, as deep learning calls convolution, over NHWC images with HWIO weights:
//   y[n,p,q,o] = bias[o] + sum_{r,s,i} x[n, p*stride + r - pad, q*stride + s - pad, i] w[r,s,i,o]
// with zeros outside the image. backward_weights gives dw and dbias, backward_data gives dx.
class Conv2d : public OpObject {
 public:
  struct Problem {
    std::int64_t batch = 1, height = 1, width = 1, in_channels = 1, out_channels = 1;
    Window window = {};
    bool bias = true;

    std::int64_t out_height() const { return window.output(height); }
    std::int64_t out_width() const { return window.output(width); }
  };
  struct Config {
    std::int64_t out_channels = 1;
    Window window = {3, 1, Padding::kSame};
    bool bias = true;
  };
  static constexpr std::string_view kName = "conv2d";
  static constexpr bool kExactOnIntegers = true;
  static constexpr std::string_view kLayerType = "Conv2D";

  static Problem problem(const Config& config, std::int64_t batch, const Shape& sample) {
    require(sample.rank() == 3, "conv2d needs height x width x channels, not " + to_string(sample));
    return {batch,         sample[0],  sample[1], sample[2], config.out_channels,
            config.window, config.bias};
  }
  static Shape output(const Config& config, const Shape& sample) {
    const Problem p = problem(config, 1, sample);
    return {p.out_height(), p.out_width(), p.out_channels};
  }
  static void validate(const Problem& p) {
    require(
        p.batch >= 1 && p.height >= 1 && p.width >= 1 && p.in_channels >= 1 && p.out_channels >= 1,
        "conv2d needs extents of at least 1: " + describe(p));
    p.window.validate(p.height);
    p.window.validate(p.width);
  }
  static std::string describe(const Problem& p) {
    return to_string(Shape{p.batch, p.height, p.width, p.in_channels}) + "->" +
           std::to_string(p.out_channels) + " " + p.window.describe() + (p.bias ? "" : " no bias");
  }

  static std::vector<Pass> passes(const Problem&) {
    return {Pass::kForward, Pass::kBackwardWeights, Pass::kBackwardData};
  }
  static std::vector<Operand> operands(const Problem& p, Pass pass) {
    const Shape x{p.batch, p.height, p.width, p.in_channels};
    const Shape y{p.batch, p.out_height(), p.out_width(), p.out_channels};
    const Shape w{p.window.size, p.window.size, p.in_channels, p.out_channels};
    const Shape bias{p.out_channels};
    std::vector<Operand> list;
    switch (pass) {
      case Pass::kForward:
        list = {{"x", x, Role::kInput}, {"w", w, Role::kParameter}};
        if (p.bias) list.push_back({"bias", bias, Role::kParameter});
        list.push_back({"y", y, Role::kOutput});
        break;
      case Pass::kBackwardWeights:
        list = {{"x", x, Role::kInput}, {"dy", y, Role::kInput}, {"dw", w, Role::kOutput}};
        if (p.bias) list.push_back({"dbias", bias, Role::kOutput});
        break;
      case Pass::kBackwardData:
        list = {{"dy", y, Role::kInput}, {"w", w, Role::kParameter}, {"dx", x, Role::kOutput}};
        break;
      case Pass::kUpdate:
        break;
    }
    return list;
  }
  static Work work(const Problem& p, Pass pass) {
    const double taps = static_cast<double>(p.window.taps_inside(p.height)) *
                        static_cast<double>(p.window.taps_inside(p.width));
    Work work{.flops = 2 * taps * static_cast<double>(p.batch * p.in_channels * p.out_channels)};
    for (const Operand& operand : operands(p, pass)) {
      work.bytes += static_cast<double>(operand.bytes());
    }
    return work;
  }
  static std::int64_t reduction_length(const Problem& p, Pass pass) {
    const std::int64_t area = p.window.size * p.window.size;
    if (pass == Pass::kForward) return area * p.in_channels;
    if (pass == Pass::kBackwardData) return area * p.out_channels;
    return p.batch * p.out_height() * p.out_width();
  }

  virtual void forward(Tensor x, Tensor w, Tensor bias, Tensor y) = 0;  // bias may be absent.
  virtual void backward_weights(Tensor x, Tensor dy, Tensor dw, Tensor dbias) = 0;
  virtual void backward_data(Tensor dy, Tensor w, Tensor dx) = 0;

  void run(Pass pass, std::span<const Tensor> t) final {
    switch (pass) {
      case Pass::kForward:
        return t.size() == 4 ? forward(t[0], t[1], t[2], t[3]) : forward(t[0], t[1], {}, t[2]);
      case Pass::kBackwardWeights:
        return backward_weights(t[0], t[1], t[2], t.size() == 4 ? t[3] : Tensor{});
      case Pass::kBackwardData:
        return backward_data(t[0], t[1], t[2]);
      case Pass::kUpdate:
        break;
    }
    throw std::logic_error("conv2d has no pass " + std::string(to_string(pass)));
  }
};

}  // namespace trainbench
