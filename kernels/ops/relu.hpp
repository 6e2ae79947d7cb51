#pragma once

#include "kernels/core/checks.hpp"
#include "kernels/core/op.hpp"

namespace trainbench {

// y = max(x, 0); dx = dy where y > 0, else 0.
class Relu : public OpObject {
 public:
  struct Problem {
    std::int64_t elements = 1;
  };
  struct Config {};
  static constexpr std::string_view kName = "relu";
  static constexpr bool kExactOnIntegers = true;
  static constexpr std::string_view kLayerType = "ReLU";

  static Problem problem(const Config&, std::int64_t batch, const Shape& sample) {
    return {batch * sample.elements()};
  }
  static Shape output(const Config&, const Shape& sample) { return sample; }
  static void validate(const Problem& p) { require(p.elements >= 1, "relu needs elements"); }
  static std::string describe(const Problem& p) { return std::to_string(p.elements); }

  static std::vector<Pass> passes(const Problem&) { return {Pass::kForward, Pass::kBackwardData}; }
  static std::vector<Operand> operands(const Problem& p, Pass pass) {
    const Shape flat{p.elements};
    if (pass == Pass::kForward) return {{"x", flat, Role::kInput}, {"y", flat, Role::kOutput}};
    return {{"dy", flat, Role::kInput}, {"y", flat, Role::kInput}, {"dx", flat, Role::kOutput}};
  }
  static Work work(const Problem& p, Pass pass) {
    const double arrays = pass == Pass::kForward ? 2 : 3;
    return {.bytes = 4.0 * arrays * static_cast<double>(p.elements)};
  }
  static std::int64_t reduction_length(const Problem&, Pass) { return 1; }

  virtual void forward(Tensor x, Tensor y) = 0;
  virtual void backward_data(Tensor dy, Tensor y, Tensor dx) = 0;

  void run(Pass pass, std::span<const Tensor> t) final {
    if (pass == Pass::kForward) return forward(t[0], t[1]);
    if (pass == Pass::kBackwardData) return backward_data(t[0], t[1], t[2]);
    throw std::logic_error("relu has no pass " + std::string(to_string(pass)));
  }
};

}  // namespace trainbench
