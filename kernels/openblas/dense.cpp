#include "kernels/ops/dense.hpp"

#include <algorithm>
#include <limits>
#include <memory>

#include "kernels/core/op_table.hpp"
#include "kernels/openblas/rows.hpp"
#include "kernels/openblas/sgemm.hpp"

namespace trainbench::openblas {
namespace {

// A product of m rows and n columns cut into a grid of pieces, one per thread.
struct Grid {
  std::int64_t rows = 1, columns = 1;  // Pieces along m and n.
  std::int64_t pieces() const { return rows * columns; }
};

// Part `part` of `parts` of 0 .. extent - 1, in multiples of kStep but for the end.
struct Range {
  // What the widest sgemm kernels take at a time.
  static constexpr std::int64_t kStep = 16;
  Range(std::int64_t extent, std::int64_t part, std::int64_t parts)
      : begin(edge(extent, part, parts)), end(edge(extent, part + 1, parts)) {}
  std::int64_t size() const { return end - begin; }
  std::int64_t begin, end;

 private:
  static std::int64_t edge(std::int64_t extent, std::int64_t part, std::int64_t parts) {
    const std::int64_t steps = (extent + kStep - 1) / kStep;
    return std::min(steps * part / parts * kStep, extent);
  }
};

// Chooses the grid whose largest piece is cheapest, in multiply-adds of which a core does some 1e11
// a second. A piece packs its share of both factors, which costs as much as some 20 an element.
// Pieces side by side write neighbouring cache lines of every row of c, which cores then take from
// each other. Several threads must be woken and waited for.
Grid choose_grid(std::int64_t m, std::int64_t n, std::int64_t k, int threads) {
  constexpr double kPacking = 20, kSharedRow = 8e3, kForkJoin = 1e5;
  const auto longest = [](std::int64_t extent, std::int64_t parts) {
    const std::int64_t steps = (extent + Range::kStep - 1) / Range::kStep;
    return static_cast<double>(std::min((steps + parts - 1) / parts * Range::kStep, extent));
  };
  Grid best;
  double best_cost = std::numeric_limits<double>::infinity();
  for (std::int64_t rows = 1; rows <= threads; ++rows) {
    for (std::int64_t columns = 1; rows * columns <= threads; ++columns) {
      const double height = longest(m, rows), width = longest(n, columns);
      const double cost = static_cast<double>(k) * (height * width + kPacking * (height + width)) +
                          (columns > 1 ? kSharedRow * height : 0) +
                          (rows * columns > 1 ? kForkJoin : 0);
      if (cost < best_cost) {
        best_cost = cost;
        best = {rows, columns};
      }
    }
  }
  return best;
}

// A dense layer by one single-threaded sgemm per thread. With `relu`, its state is dz, which
// backward_weights leaves for backward_data.
class OpenBlasDense final : public Dense {
 public:
  OpenBlasDense(const OpContext& context, const Problem& p)
      : Dense(p),
        team_(context.device),
        state_bytes_(p.relu && !context.inference
                         ? static_cast<std::size_t>(p.batch * p.out_features) * sizeof(float)
                         : 0),
        forward_(choose_grid(p.batch, p.out_features, p.in_features, team_.size())),
        weights_(choose_grid(p.in_features, p.out_features, p.batch, team_.size())),
        data_(choose_grid(p.batch, p.in_features, p.out_features, team_.size())) {}

  std::string implementation(Pass) const override { return team_.describe("sgemm"); }
  std::size_t state_bytes() const override { return state_bytes_; }

  void forward(Tensor x, Tensor w, Tensor bias, Tensor y) override {
    const Problem& p = problem();
    product(forward_, p.batch, p.out_features, p.in_features, {x.f32(), p.in_features},
            {w.f32(), p.out_features}, y.f32(), [&](const Range& rows, const Range& columns) {
              if (!p.bias && !p.relu) return;
              add_bias(p.bias ? bias.f32() + columns.begin : nullptr, p.relu, rows.size(),
                       columns.size(), p.out_features,
                       y.f32() + rows.begin * p.out_features + columns.begin);
            });
  }

  void backward_weights(Tensor x, Tensor dy, Tensor y, Tensor dw, Tensor dbias) override {
    const Problem& p = problem();
    const float* dz = p.relu ? static_cast<const float*>(state()) : dy.f32();
    if (p.relu || p.bias) {
      constexpr std::int64_t kGrain = 1 << 14;  // Elements that are not worth another thread.
      const std::int64_t grain = std::max<std::int64_t>(Range::kStep, kGrain / p.batch);
      team_.parallel_for(p.out_features, grain, [&](std::int64_t begin, std::int64_t end, int) {
        bias_gradient(begin, end, dy.f32(), y.f32(), dbias.f32());
      });
    }
    product(weights_, p.in_features, p.out_features, p.batch, {x.f32(), p.in_features, true},
            {dz, p.out_features}, dw.f32(), [](const Range&, const Range&) {});
  }

  void backward_data(Tensor dy, Tensor w, Tensor, Tensor dx) override {
    const Problem& p = problem();
    const float* dz = p.relu ? static_cast<const float*>(state()) : dy.f32();
    product(data_, p.batch, p.in_features, p.out_features, {dz, p.out_features},
            {w.f32(), p.out_features, true}, dx.f32(), [](const Range&, const Range&) {});
  }

 private:
  // c (m x n) = a b, then finish(rows, columns) on each piece by the thread that made it.
  template <class Finish>
  void product(const Grid& grid, std::int64_t m, std::int64_t n, std::int64_t k, Factor a, Factor b,
               float* c, const Finish& finish) {
    team_.parallel_for(grid.pieces(), 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t piece = begin; piece < end; ++piece) {
        const Range rows(m, piece / grid.columns, grid.rows);
        const Range columns(n, piece % grid.columns, grid.columns);
        if (rows.size() == 0 || columns.size() == 0) continue;
        const Factor a_rows{a.data + rows.begin * (a.transposed ? 1 : a.stride), a.stride,
                            a.transposed};
        const Factor b_columns{b.data + columns.begin * (b.transposed ? b.stride : 1), b.stride,
                               b.transposed};
        sgemm(rows.size(), columns.size(), k, a_rows, b_columns, false,
              c + rows.begin * n + columns.begin, n);
        finish(rows, columns);
      }
    });
  }

  // Columns begin .. end - 1 of dz, where there is a ReLU, and of dbias, where there is a bias.
  void bias_gradient(std::int64_t begin, std::int64_t end, const float* dy, const float* y,
                     float* dbias) {
    const Problem& p = problem();
    const std::int64_t columns = end - begin;
    const float* dz = dy;
    if (p.relu) {
      auto* masked = static_cast<float*>(state());
      mask_gradient(dy + begin, y + begin, p.batch, columns, p.out_features, masked + begin);
      dz = masked;
    }
    if (p.bias) {
      fill_rows(nullptr, 1, columns, dbias + begin);
      add_columns(dz + begin, p.batch, columns, p.out_features, dbias + begin);
    }
  }

  SgemmTeam team_;
  std::size_t state_bytes_;
  Grid forward_, weights_, data_;
};

}  // namespace

void add_dense(OpTable& ops) { ops.add<Dense, OpenBlasDense>(); }

}  // namespace trainbench::openblas
