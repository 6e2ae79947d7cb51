#pragma once

#include "kernels/core/checks.hpp"
#include "kernels/core/op.hpp"

namespace trainbench {

// Softmax over the classes of each row. With m = max_k x[b,k]:
//   y[b,c] = exp(x[b,c] - m) / sum_k exp(x[b,k] - m)
// backward_data: dx[b,c] = y[b,c] (dy[b,c] - sum_k dy[b,k] y[b,k]).
class Softmax : public OpObject {
 public:
  struct Problem {
    std::int64_t batch = 1, classes = 2;
  };
  struct Config {};
  static constexpr std::string_view kName = "softmax";
  static constexpr std::string_view kLayerType = "Softmax";

  static Problem problem(const Config&, std::int64_t batch, const Shape& sample) {
    require(sample.rank() == 1, "softmax needs a flat sample, not " + to_string(sample));
    return {batch, sample[0]};
  }
  static Shape output(const Config&, const Shape& sample) { return sample; }
  static void validate(const Problem& p) {
    require(p.batch >= 1 && p.classes >= 1, "softmax needs rows and classes");
  }
  static std::string describe(const Problem& p) { return to_string(Shape{p.batch, p.classes}); }

  static std::vector<Pass> passes(const Problem&) { return {Pass::kForward, Pass::kBackwardData}; }
  static std::vector<Operand> operands(const Problem& p, Pass pass) {
    const Shape matrix{p.batch, p.classes};
    if (pass == Pass::kForward) return {{"x", matrix, Role::kInput}, {"y", matrix, Role::kOutput}};
    return {{"dy", matrix, Role::kInput},
            {"y", matrix, Role::kInput, DType::kFloat32, Fill::positive()},
            {"dx", matrix, Role::kOutput}};
  }
  // Bytes alone: what an exponential costs in FLOPs is up to its implementation.
  static Work work(const Problem& p, Pass pass) {
    const double arrays = pass == Pass::kForward ? 2 : 3;
    return {.bytes = 4.0 * arrays * static_cast<double>(p.batch * p.classes)};
  }
  static std::int64_t reduction_length(const Problem& p, Pass) { return p.classes; }

  virtual void forward(Tensor x, Tensor y) = 0;
  virtual void backward_data(Tensor dy, Tensor y, Tensor dx) = 0;

  void run(Pass pass, std::span<const Tensor> t) final {
    if (pass == Pass::kForward) return forward(t[0], t[1]);
    if (pass == Pass::kBackwardData) return backward_data(t[0], t[1], t[2]);
    throw std::logic_error("softmax has no pass " + std::string(to_string(pass)));
  }
};

}  // namespace trainbench
