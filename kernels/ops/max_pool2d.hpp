#pragma once

#include "kernels/ops/pooling.hpp"

namespace trainbench {

// y[n,p,q,c] = the largest x of its window; elements outside the image do not take part.
// backward_data adds each dy to the first maximum of its window in row-major order; windows may
// overlap. Backward passes may use what forward left in the state, or find the maximum again.
class MaxPool2d : public Pooling {
 public:
  static constexpr std::string_view kName = "max_pool2d";
  static constexpr bool kExactOnIntegers = true;
  static constexpr std::string_view kLayerType = "MaxPooling2D";

  static std::vector<Operand> operands(const Problem& p, Pass pass) {
    const Shape x = p.x_shape(), y = p.y_shape();
    if (pass == Pass::kForward) return {{"x", x, Role::kInput}, {"y", y, Role::kOutput}};
    return {{"x", x, Role::kInput}, {"dy", y, Role::kInput}, {"dx", x, Role::kOutput}};
  }
  // Comparisons are no FLOPs. x of the backward pass can be replaced by state: not compulsory.
  static Work work(const Problem& p, Pass) { return {.bytes = bytes(p)}; }
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
