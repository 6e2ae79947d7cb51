#include "kernels/ops/dropout.hpp"

#include "kernels/reference/reference_op.hpp"

namespace trainbench::reference {
namespace {

class ReferenceDropout final : public ReferenceOp<Dropout> {
 public:
  using ReferenceOp::ReferenceOp;

  double element(Pass, std::span<const Tensor> t, std::size_t, std::int64_t i) const override {
    const std::uint32_t updates = *t[1].as<std::uint32_t>();
    if (Dropout::dropped(problem(), updates, static_cast<std::uint64_t>(i))) return 0;
    return t[0].f32()[i] / (1 - problem().rate);
  }
};

}  // namespace

void add_dropout(OpTable& ops) { ops.add<Dropout>(create<ReferenceDropout>); }

}  // namespace trainbench::reference
