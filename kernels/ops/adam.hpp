#pragma once

#include <sstream>

#include "kernels/core/checks.hpp"
#include "kernels/core/op.hpp"

namespace trainbench {

// Adam (Kingma and Ba, 2015) in Keras's form. With t = step + 1:
//   m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2
//   w -= learning_rate sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + epsilon)
// and step becomes t. Weights of zero with zero gradients stay zero, so padding stays clean.
class Adam : public OpObject {
 public:
  struct Hyperparameters {
    double learning_rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-7;
  };
  struct Problem {
    std::int64_t elements = 1;
    Hyperparameters hyper = {};
  };
  static constexpr std::string_view kName = "adam";

  static void validate(const Problem& p) {
    require(p.elements >= 1, "adam needs elements");
    require(p.hyper.beta1 >= 0 && p.hyper.beta1 < 1 && p.hyper.beta2 >= 0 && p.hyper.beta2 < 1 &&
                p.hyper.epsilon >= 0 && p.hyper.learning_rate >= 0,
            "adam needs betas in [0, 1) and no negative learning rate or epsilon");
  }
  static std::string describe(const Problem& p) {
    const Hyperparameters& h = p.hyper;
    std::ostringstream text;
    text << p.elements << " rate " << h.learning_rate << " betas " << h.beta1 << " " << h.beta2
         << " epsilon " << h.epsilon;
    return text.str();
  }

  static std::vector<Pass> passes(const Problem&) { return {Pass::kUpdate}; }
  static std::vector<Operand> operands(const Problem& p, Pass) {
    const Shape flat{p.elements};
    return {{"g", flat, Role::kInput},
            {"w", flat, Role::kInOut},
            {"m", flat, Role::kInOut},
            {"v", flat, Role::kInOut, DType::kFloat32, Fill::positive()},
            {"step", {1}, Role::kInOut, DType::kUint32, Fill::below(1000)}};
  }
  // m: 3, v: 4, w: sqrt, add, divide, multiply, subtract. Four arrays are read, three written.
  static Work work(const Problem& p, Pass) {
    const auto n = static_cast<double>(p.elements);
    return {.flops = 12 * n, .bytes = 28 * n};
  }
  static std::int64_t reduction_length(const Problem&, Pass) { return 2; }

  virtual void update(Tensor g, Tensor w, Tensor m, Tensor v, Tensor step) = 0;

  void run(Pass pass, std::span<const Tensor> t) final {
    if (pass == Pass::kUpdate) return update(t[0], t[1], t[2], t[3], t[4]);
    throw std::logic_error("adam has no pass " + std::string(to_string(pass)));
  }
};

}  // namespace trainbench
