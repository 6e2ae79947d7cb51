#include "kernels/ops/dense.hpp"

#include <algorithm>

#include "kernels/reference/reference_op.hpp"

namespace trainbench::reference {
namespace {

class ReferenceDense final : public ReferenceOp<Dense> {
 public:
  using ReferenceOp::ReferenceOp;

  double element(Pass pass, std::span<const Tensor> t, std::size_t output,
                 std::int64_t index) const override {
    const Problem& p = problem();
    if (pass == Pass::kForward) return forward(t[0], t[1], p.bias ? t[2].f32() : nullptr, index);
    if (pass == Pass::kBackwardData) return data_gradient(t[0], t[1], y_of(t), index);
    const std::size_t dw = p.relu ? 3 : 2;
    return output == dw ? weight_gradient(t[0], t[1], y_of(t), index)
                        : bias_gradient(t[1], y_of(t), index);
  }

 private:
  // In both backward passes y, where there is one, is the third operand.
  const float* y_of(std::span<const Tensor> t) const {
    return problem().relu ? t[2].f32() : nullptr;
  }
  // The gradient before the activation.
  static double dz(const Tensor& dy, const float* y, std::int64_t index) {
    return y == nullptr || y[index] > 0 ? dy.f32()[index] : 0;
  }

  double forward(const Tensor& x, const Tensor& w, const float* bias, std::int64_t index) const {
    const Problem& p = problem();
    const std::int64_t b = index / p.out_features, o = index % p.out_features;
    double sum = bias == nullptr ? 0 : bias[o];
    for (std::int64_t i = 0; i < p.in_features; ++i) {
      sum += static_cast<double>(x.f32()[b * p.in_features + i]) * w.f32()[i * p.out_features + o];
    }
    return p.relu ? std::max(sum, 0.0) : sum;
  }
  double data_gradient(const Tensor& dy, const Tensor& w, const float* y,
                       std::int64_t index) const {
    const Problem& p = problem();
    const std::int64_t b = index / p.in_features, i = index % p.in_features;
    double sum = 0;
    for (std::int64_t o = 0; o < p.out_features; ++o) {
      sum += dz(dy, y, b * p.out_features + o) * w.f32()[i * p.out_features + o];
    }
    return sum;
  }
  double weight_gradient(const Tensor& x, const Tensor& dy, const float* y,
                         std::int64_t index) const {
    const Problem& p = problem();
    const std::int64_t i = index / p.out_features, o = index % p.out_features;
    double sum = 0;
    for (std::int64_t b = 0; b < p.batch; ++b) {
      sum +=
          static_cast<double>(x.f32()[b * p.in_features + i]) * dz(dy, y, b * p.out_features + o);
    }
    return sum;
  }
  double bias_gradient(const Tensor& dy, const float* y, std::int64_t o) const {
    const Problem& p = problem();
    double sum = 0;
    for (std::int64_t b = 0; b < p.batch; ++b) sum += dz(dy, y, b * p.out_features + o);
    return sum;
  }
};

}  // namespace

void add_dense(OpTable& ops) { ops.add<Dense>(create<ReferenceDense>); }

}  // namespace trainbench::reference
