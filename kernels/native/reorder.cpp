#include "kernels/ops/reorder.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/core/op_table.hpp"
#include "kernels/native/native_op.hpp"
#include "kernels/native/simd_target.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/native/reorder.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/native/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace trainbench::native {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR
// y[j,i] = x[i,j] for 4 x 4 elements of matrices with the given row lengths.
HWY_INLINE void transpose_4x4(const float* x, std::int64_t x_stride, float* y,
                              std::int64_t y_stride) {
  for (std::int64_t j = 0; j < 4; ++j) {
    for (std::int64_t i = 0; i < 4; ++i) y[j * y_stride + i] = x[i * x_stride + j];
  }
}
#else
HWY_INLINE void transpose_4x4(const float* x, std::int64_t x_stride, float* y,
                              std::int64_t y_stride) {
  const hn::FixedTag<float, 4> d;
  const auto row0 = hn::LoadU(d, x), row1 = hn::LoadU(d, x + x_stride),
             row2 = hn::LoadU(d, x + 2 * x_stride), row3 = hn::LoadU(d, x + 3 * x_stride);
  const auto even_low = hn::InterleaveLower(d, row0, row2),
             odd_low = hn::InterleaveLower(d, row1, row3),
             even_high = hn::InterleaveUpper(d, row0, row2),
             odd_high = hn::InterleaveUpper(d, row1, row3);
  hn::StoreU(hn::InterleaveLower(d, even_low, odd_low), d, y);
  hn::StoreU(hn::InterleaveUpper(d, even_low, odd_low), d, y + y_stride);
  hn::StoreU(hn::InterleaveLower(d, even_high, odd_high), d, y + 2 * y_stride);
  hn::StoreU(hn::InterleaveUpper(d, even_high, odd_high), d, y + 3 * y_stride);
}
#endif

// The block of y with rows first .. last - 1 and columns left .. right - 1; y is the transpose of
// x, a matrix of `rows` x `columns`.
void transpose_block(const float* x, float* y, std::int64_t rows, std::int64_t columns,
                     std::int64_t first, std::int64_t last, std::int64_t left, std::int64_t right) {
  std::int64_t j = first;
  for (; j + 4 <= last; j += 4) {
    std::int64_t i = left;
    for (; i + 4 <= right; i += 4) {
      transpose_4x4(x + i * columns + j, columns, y + j * rows + i, rows);
    }
    for (; i < right; ++i) {
      for (std::int64_t k = j; k < j + 4; ++k) y[k * rows + i] = x[i * columns + k];
    }
  }
  for (; j < last; ++j) {
    for (std::int64_t i = left; i < right; ++i) y[j * rows + i] = x[i * columns + j];
  }
}

// Rows first .. last - 1 of y, in blocks whose part of x stays in the first-level cache.
void transpose_rows(const float* x, float* y, std::int64_t rows, std::int64_t columns,
                    std::int64_t first, std::int64_t last) {
  constexpr std::int64_t kBlock = 64;
  for (std::int64_t left = 0; left < rows; left += kBlock) {
    transpose_block(x, y, rows, columns, first, last, left, std::min(left + kBlock, rows));
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trainbench::native
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trainbench::native {
namespace {

HWY_EXPORT(transpose_rows);

constexpr std::int64_t kGrain = 16384;  // Elements: a few times a fork-join.

// NHWC to NCHW transposes each image as a matrix of pixels x channels; the way back likewise.
class NativeReorder final : public Reorder {
 public:
  NativeReorder(const OpContext& context, const Problem& problem)
      : Reorder(problem), team_(as_host(context.device).team()) {
    const auto known = [](const Layout& l) { return l.canonical() || l == planar(); };
    if (!known(problem.from) || !known(problem.to)) {
      throw Unsupported("native reorders between canonical and nchw only, not " +
                        describe(problem));
    }
  }

  void reorder(Tensor x, Tensor y) override {
    const Shape& s = problem().shape;
    if (problem().from == problem().to) return copy(x.f32(), y.f32(), s.elements());
    const std::int64_t pixels = s[1] * s[2], channels = s[3];
    if (problem().to == planar()) return transpose(x.f32(), y.f32(), s[0], pixels, channels);
    transpose(x.f32(), y.f32(), s[0], channels, pixels);
  }
  std::string implementation(Pass) const override {
    return problem().from == problem().to ? "memcpy" : simd_implementation();
  }

 private:
  void copy(const float* x, float* y, std::int64_t count) {
    parallel_elements(team_, count, kGrain, [&](std::int64_t begin, std::int64_t end) {
      std::memcpy(y + begin, x + begin, static_cast<std::size_t>(end - begin) * sizeof(float));
    });
  }
  // Each of `matrices` matrices of `rows` x `columns`, in bands of rows of the result.
  void transpose(const float* x, float* y, std::int64_t matrices, std::int64_t rows,
                 std::int64_t columns) {
    constexpr std::int64_t kBand = 16;
    const std::int64_t bands = (columns + kBand - 1) / kBand;
    const std::int64_t grain = std::max<std::int64_t>(1, kGrain / (kBand * rows));
    parallel_for(team_, matrices * bands, grain, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t unit = begin; unit < end; ++unit) {
        const std::int64_t offset = unit / bands * rows * columns, first = unit % bands * kBand;
        HWY_DYNAMIC_DISPATCH(transpose_rows)
        (x + offset, y + offset, rows, columns, first, std::min(first + kBand, columns));
      }
    });
  }

  ThreadTeam& team_;
};

}  // namespace

void add_reorder(OpTable& ops) { ops.add<Reorder, NativeReorder>(); }

}  // namespace trainbench::native
#endif
