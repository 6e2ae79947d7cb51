#pragma once

#include "kernels/core/checks.hpp"
#include "kernels/core/op.hpp"

namespace trainbench {

// Softmax over the classes of each row, and its cross-entropy with integer labels. With m = max_c
// x:
//   y[b,c] = exp(x[b,c] - m) / sum_k exp(x[b,k] - m)
//   loss = sum_b (m + log(sum_k exp(x[b,k] - m)) - x[b,label[b]])   (a sum, not a mean)
//   predicted[b] = first c with the largest x[b,c]; correct = how many predicted equal the label
// backward_data: dx = (y - one_hot(label)) / batch, the gradient of the mean loss. A label outside
// 0 .. classes - 1 is never followed into memory; its row has a loss that is not a number.
class SoftmaxCrossEntropy : public OpObject {
 public:
  struct Problem {
    std::int64_t batch = 1, classes = 2;
  };
  static constexpr std::string_view kName = "softmax_cross_entropy";

  static void validate(const Problem& p) {
    require(p.batch >= 1 && p.classes >= 1, "softmax_cross_entropy needs rows and classes");
  }
  static std::string describe(const Problem& p) { return to_string(Shape{p.batch, p.classes}); }

  static std::vector<Pass> passes(const Problem&) { return {Pass::kForward, Pass::kBackwardData}; }
  static std::vector<Operand> operands(const Problem& p, Pass pass) {
    const Shape matrix{p.batch, p.classes};
    const Operand labels{"labels", {p.batch}, Role::kInput, DType::kInt32, Fill::below(p.classes)};
    if (pass == Pass::kForward) {
      return {{"x", matrix, Role::kInput},
              labels,
              {"y", matrix, Role::kOutput},
              {"loss", {1}, Role::kOutput},
              {"correct", {1}, Role::kOutput, DType::kInt32},
              {"predicted", {p.batch}, Role::kOutput, DType::kInt32}};
    }
    return {{"y", matrix, Role::kInput, DType::kFloat32, Fill::positive()},
            labels,
            {"dx", matrix, Role::kOutput}};
  }
  static Work work(const Problem& p, Pass) {
    return {.bytes = 8.0 * static_cast<double>(p.batch * p.classes)};
  }
  static std::int64_t reduction_length(const Problem& p, Pass pass) {
    return pass == Pass::kForward ? p.classes + p.batch : 1;
  }

  virtual void forward(Tensor x, Tensor labels, Tensor y, Tensor loss, Tensor correct,
                       Tensor predicted) = 0;
  virtual void backward_data(Tensor y, Tensor labels, Tensor dx) = 0;

  void run(Pass pass, std::span<const Tensor> t) final {
    if (pass == Pass::kForward) return forward(t[0], t[1], t[2], t[3], t[4], t[5]);
    if (pass == Pass::kBackwardData) return backward_data(t[0], t[1], t[2]);
    throw std::logic_error("softmax_cross_entropy has no pass " + std::string(to_string(pass)));
  }
};

}  // namespace trainbench
