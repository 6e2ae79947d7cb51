#include "kernels/ops/max_pool2d.hpp"

#include "kernels/reference/reference_op.hpp"

namespace trainbench::reference {
namespace {

class ReferenceMaxPool2d final : public ReferenceOp<MaxPool2d> {
 public:
  using ReferenceOp::ReferenceOp;

  double element(Pass pass, std::span<const Tensor> t, std::size_t,
                 std::int64_t index) const override {
    const Problem& p = problem();
    const float* x = t[0].f32();
    const std::int64_t c = index % p.channels;
    if (pass == Pass::kForward) {
      const std::int64_t column = index / p.channels % p.out_width();
      const std::int64_t row = index / (p.channels * p.out_width()) % p.out_height();
      const std::int64_t n = index / (p.channels * p.out_width() * p.out_height());
      return x[first_maximum(x, n, row, column, c)];
    }
    const std::int64_t n = index / (p.channels * p.width * p.height);
    const auto rows = p.window.covering(p.height, index / (p.channels * p.width) % p.height);
    const auto columns = p.window.covering(p.width, index / p.channels % p.width);
    double sum = 0;
    for (std::int64_t row = rows.first; row < rows.last; ++row) {
      for (std::int64_t column = columns.first; column < columns.last; ++column) {
        if (first_maximum(x, n, row, column, c) == index) {
          sum += t[1].f32()[((n * p.out_height() + row) * p.out_width() + column) * p.channels + c];
        }
      }
    }
    return sum;
  }

 private:
  // Index in x of the first largest element of a window, in row-major order.
  std::int64_t first_maximum(const float* x, std::int64_t n, std::int64_t out_row,
                             std::int64_t out_column, std::int64_t c) const {
    const Problem& p = problem();
    const std::int64_t top = p.window.start(p.height, out_row),
                       left = p.window.start(p.width, out_column);
    std::int64_t best = -1;
    for (std::int64_t row = top; row < top + p.window.size; ++row) {
      for (std::int64_t column = left; column < left + p.window.size; ++column) {
        if (row < 0 || row >= p.height || column < 0 || column >= p.width) continue;
        const std::int64_t index = ((n * p.height + row) * p.width + column) * p.channels + c;
        if (best < 0 || x[index] > x[best]) best = index;
      }
    }
    return best;
  }
};

}  // namespace

void add_max_pool2d(OpTable& ops) { ops.add<MaxPool2d>(create<ReferenceMaxPool2d>); }

}  // namespace trainbench::reference
