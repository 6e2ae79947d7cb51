#include "kernels/ops/reorder.hpp"

#include "kernels/reference/reference_op.hpp"

namespace trainbench::reference {
namespace {

class ReferenceReorder final : public ReferenceOp<Reorder> {
 public:
  using ReferenceOp::ReferenceOp;

  // A form of some backend's own holds the same canonical values, so there the copy is the truth.
  double element(Pass, std::span<const Tensor> t, std::size_t, std::int64_t i) const override {
    const Problem& p = problem();
    const bool from_planar = p.from == Reorder::planar(), to_planar = p.to == Reorder::planar();
    if (from_planar == to_planar) return t[0].f32()[i];
    const std::int64_t channels = p.shape[3], pixels = p.shape[1] * p.shape[2];
    const std::int64_t rows = to_planar ? channels : pixels,
                       columns = to_planar ? pixels : channels;
    const std::int64_t n = i / (rows * columns), row = i / columns % rows, column = i % columns;
    return t[0].f32()[n * rows * columns + column * rows + row];
  }
};

}  // namespace

void add_reorder(OpTable& ops) { ops.add<Reorder>(create<ReferenceReorder>); }

}  // namespace trainbench::reference
