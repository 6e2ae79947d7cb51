#include "kernels/ops/relu.hpp"

#include <algorithm>

#include "kernels/reference/reference_op.hpp"

namespace trainbench::reference {
namespace {

class ReferenceRelu final : public ReferenceOp<Relu> {
 public:
  using ReferenceOp::ReferenceOp;

  double element(Pass pass, std::span<const Tensor> t, std::size_t, std::int64_t i) const override {
    if (pass == Pass::kForward) return std::max(t[0].f32()[i], 0.0f);
    return t[1].f32()[i] > 0 ? t[0].f32()[i] : 0.0f;
  }
};

}  // namespace

void add_relu(OpTable& ops) { ops.add<Relu>(create<ReferenceRelu>); }

}  // namespace trainbench::reference
