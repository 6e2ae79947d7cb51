#include "kernels/ops/softmax.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/reference/reference_op.hpp"

namespace trainbench::reference {
namespace {

class ReferenceSoftmax final : public ReferenceOp<Softmax> {
 public:
  using ReferenceOp::ReferenceOp;

  double element(Pass pass, std::span<const Tensor> t, std::size_t, std::int64_t i) const override {
    const std::int64_t classes = problem().classes;
    const std::int64_t first = i / classes * classes;  // Of the element's row.
    double sum = 0;
    if (pass == Pass::kForward) {
      const float* x = t[0].f32();
      const double maximum = *std::max_element(x + first, x + first + classes);
      for (std::int64_t k = first; k < first + classes; ++k) sum += std::exp(x[k] - maximum);
      return std::exp(x[i] - maximum) / sum;
    }
    const float *dy = t[0].f32(), *y = t[1].f32();
    for (std::int64_t k = first; k < first + classes; ++k) sum += static_cast<double>(dy[k]) * y[k];
    return y[i] * (dy[i] - sum);
  }
};

}  // namespace

void add_softmax(OpTable& ops) { ops.add<Softmax>(create<ReferenceSoftmax>); }

}  // namespace trainbench::reference
