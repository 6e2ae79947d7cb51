#include "kernels/ops/gather.hpp"

#include "kernels/reference/reference_op.hpp"

namespace trainbench::reference {
namespace {

class ReferenceGather final : public ReferenceOp<Gather> {
 public:
  using ReferenceOp::ReferenceOp;

  double element(Pass, std::span<const Tensor> t, std::size_t output,
                 std::int64_t i) const override {
    const Problem& p = problem();
    const std::int64_t cursor = *t[3].as<std::uint32_t>();
    if (output == 3) {
      return static_cast<double>(cursor + p.batch == p.count ? 0 : cursor + p.batch);
    }
    const std::int64_t b = output == 4 ? i / p.features : i;
    const std::int64_t sample = t[2].as<std::uint32_t>()[cursor + b];
    if (output == 5) return t[1].as<std::uint8_t>()[sample];
    return t[0].as<std::uint8_t>()[sample * p.features + i % p.features] / 255.0;
  }
};

}  // namespace

void add_gather(OpTable& ops) { ops.add<Gather>(create<ReferenceGather>); }

}  // namespace trainbench::reference
