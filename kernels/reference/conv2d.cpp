#include "kernels/ops/conv2d.hpp"

#include <algorithm>

#include "kernels/reference/reference_op.hpp"

namespace trainbench::reference {
namespace {

class ReferenceConv2d final : public ReferenceOp<Conv2d> {
 public:
  using ReferenceOp::ReferenceOp;

  double element(Pass pass, std::span<const Tensor> t, std::size_t output,
                 std::int64_t index) const override {
    const Problem& p = problem();
    if (pass == Pass::kForward) return forward(t[0], t[1], p.bias ? t[2].f32() : nullptr, index);
    if (pass == Pass::kBackwardData) return backward_data(t[0], t[1], index);
    return output == 2 ? weight_gradient(t[0], t[1], index) : bias_gradient(t[1], index);
  }

 private:
  double forward(const Tensor& x, const Tensor& w, const float* bias, std::int64_t index) const {
    const Problem& p = problem();
    const auto [n, row, column, o] = split(index, p.out_height(), p.out_width(), p.out_channels);
    const std::int64_t top = p.window.start(p.height, row), left = p.window.start(p.width, column);
    double sum = bias == nullptr ? 0 : bias[o];
    for (std::int64_t r = 0; r < p.window.size; ++r) {
      if (top + r < 0 || top + r >= p.height) continue;
      for (std::int64_t s = 0; s < p.window.size; ++s) {
        if (left + s < 0 || left + s >= p.width) continue;
        const float* pixel =
            x.f32() + ((n * p.height + top + r) * p.width + left + s) * p.in_channels;
        const float* tap = w.f32() + (r * p.window.size + s) * p.in_channels * p.out_channels + o;
        for (std::int64_t i = 0; i < p.in_channels; ++i) {
          sum += static_cast<double>(pixel[i]) * tap[i * p.out_channels];
        }
      }
    }
    return sum;
  }

  double backward_data(const Tensor& dy, const Tensor& w, std::int64_t index) const {
    const Problem& p = problem();
    const auto [n, row, column, i] = split(index, p.height, p.width, p.in_channels);
    const auto rows = p.window.covering(p.height, row),
               columns = p.window.covering(p.width, column);
    double sum = 0;
    for (std::int64_t out_row = rows.first; out_row < rows.last; ++out_row) {
      const std::int64_t r = row - p.window.start(p.height, out_row);
      for (std::int64_t out_column = columns.first; out_column < columns.last; ++out_column) {
        const std::int64_t s = column - p.window.start(p.width, out_column);
        const float* slope =
            dy.f32() +
            ((n * p.out_height() + out_row) * p.out_width() + out_column) * p.out_channels;
        const float* tap = w.f32() + ((r * p.window.size + s) * p.in_channels + i) * p.out_channels;
        for (std::int64_t o = 0; o < p.out_channels; ++o) {
          sum += static_cast<double>(slope[o]) * tap[o];
        }
      }
    }
    return sum;
  }

  double weight_gradient(const Tensor& x, const Tensor& dy, std::int64_t index) const {
    const Problem& p = problem();
    const auto [r, s, i, o] = split(index, p.window.size, p.in_channels, p.out_channels);
    double sum = 0;
    for (std::int64_t n = 0; n < p.batch; ++n) {
      for (std::int64_t out_row = 0; out_row < p.out_height(); ++out_row) {
        const std::int64_t row = p.window.start(p.height, out_row) + r;
        if (row < 0 || row >= p.height) continue;
        for (std::int64_t out_column = 0; out_column < p.out_width(); ++out_column) {
          const std::int64_t column = p.window.start(p.width, out_column) + s;
          if (column < 0 || column >= p.width) continue;
          sum += static_cast<double>(
                     x.f32()[((n * p.height + row) * p.width + column) * p.in_channels + i]) *
                 dy.f32()[((n * p.out_height() + out_row) * p.out_width() + out_column) *
                              p.out_channels +
                          o];
        }
      }
    }
    return sum;
  }

  double bias_gradient(const Tensor& dy, std::int64_t o) const {
    double sum = 0;
    for (std::int64_t i = o; i < dy.shape.elements(); i += problem().out_channels)
      sum += dy.f32()[i];
    return sum;
  }

  struct Position {
    std::int64_t a, b, c, d;
  };
  // Coordinates of an element of a tensor whose last three extents are given.
  static Position split(std::int64_t index, std::int64_t extent_b, std::int64_t extent_c,
                        std::int64_t extent_d) {
    return {index / (extent_d * extent_c * extent_b), index / (extent_d * extent_c) % extent_b,
            index / extent_d % extent_c, index % extent_d};
  }
};

}  // namespace

void add_conv2d(OpTable& ops) { ops.add<Conv2d>(create<ReferenceConv2d>); }

}  // namespace trainbench::reference
