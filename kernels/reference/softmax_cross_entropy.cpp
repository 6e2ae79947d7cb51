#include "kernels/ops/softmax_cross_entropy.hpp"

#include <cmath>
#include <limits>

#include "kernels/reference/reference_op.hpp"

namespace trainbench::reference {
namespace {

class ReferenceSoftmaxCrossEntropy final : public ReferenceOp<SoftmaxCrossEntropy> {
 public:
  using ReferenceOp::ReferenceOp;

  double element(Pass pass, std::span<const Tensor> t, std::size_t output,
                 std::int64_t i) const override {
    const Problem& p = problem();
    const float* x = t[0].f32();
    const auto* labels = t[1].as<std::int32_t>();
    if (pass == Pass::kBackwardData) {
      const double target = labels[i / p.classes] == i % p.classes ? 1 : 0;
      return (x[i] - target) / static_cast<double>(p.batch);  // The first operand is y here.
    }
    if (output == 2) {
      const float* row = x + i / p.classes * p.classes;
      const double shifted = static_cast<double>(row[i % p.classes]) - row[first_maximum(row)];
      return std::exp(shifted - log_sum(row));
    }
    if (output == 5) return static_cast<double>(first_maximum(x + i * p.classes));
    double loss = 0, correct = 0;
    for (std::int64_t b = 0; b < p.batch; ++b) {
      const float* row = x + b * p.classes;
      const std::int64_t best = first_maximum(row);
      correct += best == labels[b] ? 1 : 0;
      const bool valid = labels[b] >= 0 && labels[b] < p.classes;
      loss += valid ? static_cast<double>(row[best]) - row[labels[b]] + log_sum(row)
                    : std::numeric_limits<double>::quiet_NaN();
    }
    return output == 3 ? loss : correct;
  }

 private:
  std::int64_t first_maximum(const float* row) const {
    std::int64_t best = 0;
    for (std::int64_t c = 1; c < problem().classes; ++c) {
      if (row[c] > row[best]) best = c;
    }
    return best;
  }
  // log of sum_c exp(x[c] - max x).
  double log_sum(const float* row) const {
    const double maximum = row[first_maximum(row)];
    double sum = 0;
    for (std::int64_t c = 0; c < problem().classes; ++c) sum += std::exp(row[c] - maximum);
    return std::log(sum);
  }
};

}  // namespace

void add_softmax_cross_entropy(OpTable& ops) {
  ops.add<SoftmaxCrossEntropy>(create<ReferenceSoftmaxCrossEntropy>);
}

}  // namespace trainbench::reference
