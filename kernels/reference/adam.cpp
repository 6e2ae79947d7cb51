#include "kernels/ops/adam.hpp"

#include <cmath>

#include "kernels/reference/reference_op.hpp"

namespace trainbench::reference {
namespace {

class ReferenceAdam final : public ReferenceOp<Adam> {
 public:
  using ReferenceOp::ReferenceOp;

  double element(Pass, std::span<const Tensor> t, std::size_t output,
                 std::int64_t i) const override {
    const Adam::Hyperparameters& h = problem().hyper;
    const double step = *t[4].as<std::uint32_t>() + 1.0;
    if (output == 4) return step;
    const double g = t[0].f32()[i];
    const double m = h.beta1 * t[2].f32()[i] + (1 - h.beta1) * g;
    const double v = h.beta2 * t[3].f32()[i] + (1 - h.beta2) * g * g;
    if (output == 2) return m;
    if (output == 3) return v;
    const double rate =
        h.learning_rate * std::sqrt(1 - std::pow(h.beta2, step)) / (1 - std::pow(h.beta1, step));
    return t[1].f32()[i] - rate * m / (std::sqrt(v) + h.epsilon);
  }
};

}  // namespace

void add_adam(OpTable& ops) { ops.add<Adam>(create<ReferenceAdam>); }

}  // namespace trainbench::reference
