#pragma once

#include "kernels/ops/pooling.hpp"

namespace trainbench {

// y[n,p,q,c] = the mean of the x of its window that lie in the image: 'same' padding does not
// count, as in TensorFlow. backward_data spreads each dy evenly over those; windows may overlap.
class AvgPool2d : public Pooling {
 public:
  static constexpr std::string_view kName = "avg_pool2d";
  static constexpr std::string_view kLayerType = "AveragePooling2D";

  static std::vector<Operand> operands(const Problem& p, Pass pass) {
    const Shape x = p.x_shape(), y = p.y_shape();
    if (pass == Pass::kForward) return {{"x", x, Role::kInput}, {"y", y, Role::kOutput}};
    return {{"dy", y, Role::kInput}, {"dx", x, Role::kOutput}};
  }
  // One addition per tap in the image and one product per output, in both directions.
  static Work work(const Problem& p, Pass) {
    const auto images = static_cast<double>(p.batch * p.channels);
    const auto taps =
        static_cast<double>(p.window.taps_inside(p.height) * p.window.taps_inside(p.width));
    const auto outputs = static_cast<double>(p.y_shape().elements());
    return {.flops = images * taps + outputs, .bytes = bytes(p)};
  }
  static std::int64_t reduction_length(const Problem& p, Pass) {
    return p.window.size * p.window.size;
  }

  virtual void forward(Tensor x, Tensor y) = 0;
  virtual void backward_data(Tensor dy, Tensor dx) = 0;

  void run(Pass pass, std::span<const Tensor> t) final {
    if (pass == Pass::kForward) return forward(t[0], t[1]);
    if (pass == Pass::kBackwardData) return backward_data(t[0], t[1]);
    throw std::logic_error("avg_pool2d has no pass " + std::string(to_string(pass)));
  }
};

}  // namespace trainbench
