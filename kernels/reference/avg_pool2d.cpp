#include "kernels/ops/avg_pool2d.hpp"

#include "kernels/reference/reference_op.hpp"

namespace trainbench::reference {
namespace {

class ReferenceAvgPool2d final : public ReferenceOp<AvgPool2d> {
 public:
  using ReferenceOp::ReferenceOp;

  double element(Pass pass, std::span<const Tensor> t, std::size_t,
                 std::int64_t index) const override {
    const Problem& p = problem();
    const float* from = t[0].f32();
    const std::int64_t c = index % p.channels;
    double sum = 0;
    if (pass == Pass::kForward) {
      const std::int64_t q = index / p.channels % p.out_width();
      const std::int64_t row = index / (p.channels * p.out_width()) % p.out_height();
      const std::int64_t n = index / (p.channels * p.out_width() * p.out_height());
      const Window::Range rows = p.window.inside(p.height, row),
                          columns = p.window.inside(p.width, q);
      for (std::int64_t i = rows.first; i < rows.last; ++i) {
        for (std::int64_t j = columns.first; j < columns.last; ++j) {
          sum += from[((n * p.height + i) * p.width + j) * p.channels + c];
        }
      }
      return sum / static_cast<double>(rows.count() * columns.count());
    }
    const std::int64_t column = index / p.channels % p.width;
    const std::int64_t row = index / (p.channels * p.width) % p.height;
    const std::int64_t n = index / (p.channels * p.width * p.height);
    const auto over = p.window.covering(p.height, row), across = p.window.covering(p.width, column);
    for (std::int64_t i = over.first; i < over.last; ++i) {
      const Window::Range rows = p.window.inside(p.height, i);
      for (std::int64_t j = across.first; j < across.last; ++j) {
        const Window::Range columns = p.window.inside(p.width, j);
        sum += from[((n * p.out_height() + i) * p.out_width() + j) * p.channels + c] /
               static_cast<double>(rows.count() * columns.count());
      }
    }
    return sum;
  }
};

}  // namespace

void add_avg_pool2d(OpTable& ops) { ops.add<AvgPool2d>(create<ReferenceAvgPool2d>); }

}  // namespace trainbench::reference
