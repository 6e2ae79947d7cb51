#include "kernels/ops/max_pool2d.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/core/op_table.hpp"
#include "kernels/native/native_op.hpp"
#include "kernels/native/simd_target.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/native/max_pool2d.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/native/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace trainbench::native {
namespace HWY_NAMESPACE {
namespace {

// The taps of a window that meet the image, along one axis: first .. last - 1.
struct Taps {
  std::int64_t first, last;
};

HWY_INLINE Taps taps(const Window& window, std::int64_t input, std::int64_t position) {
  const std::int64_t start = window.start(input, position);
  return {std::max<std::int64_t>(0, -start), std::min(window.size, input - start)};
}

template <class Index, class D>
HWY_INLINE void store_index(D, hn::Vec<hn::Rebind<std::int32_t, D>> tap, Index* to) {
  const hn::Rebind<Index, D> stored;
  if constexpr (sizeof(Index) == 1) {
    hn::StoreU(hn::DemoteTo(stored, tap), stored, to);
  } else {
    hn::StoreU(tap, stored, to);
  }
}

// The lanes whose stored index is `tap`.
template <class Index, class D>
HWY_INLINE hn::Mask<D> is_tap(D d, const Index* from, std::int64_t tap) {
  const hn::Rebind<std::int32_t, D> wide;
  const hn::Rebind<Index, D> stored;
  const auto wanted = hn::Set(wide, static_cast<std::int32_t>(tap));
  if constexpr (sizeof(Index) == 1) {
    return hn::RebindMask(d, hn::Eq(hn::PromoteTo(wide, hn::LoadU(stored, from)), wanted));
  } else {
    return hn::RebindMask(d, hn::Eq(hn::LoadU(stored, from), wanted));
  }
}

// The maximum of one window in all channels. `corner` is the pixel under tap (rows.first,
// columns.first), `size` and `row_stride` the window's and the image's row length in taps and
// elements. A tap's index is row * size + column. Without kTraining, `index` is not touched.
template <bool kTraining, class Index>
HWY_INLINE void pool_window(const float* corner, float* y, Index* index, Taps rows, Taps columns,
                            std::int64_t size, std::int64_t row_stride, std::int64_t channels) {
  for_vectors(channels, [=](auto d, std::size_t c) HWY_ATTR {
    const hn::Rebind<std::int32_t, decltype(d)> di;
    auto best = hn::LoadU(d, corner + c);
    auto best_tap = hn::Set(di, static_cast<std::int32_t>(rows.first * size + columns.first));
    for (std::int64_t r = rows.first; r < rows.last; ++r) {
      const float* pixel = corner + (r - rows.first) * row_stride + c;
      for (std::int64_t s = columns.first; s < columns.last; ++s, pixel += channels) {
        const auto value = hn::LoadU(d, pixel);
        const auto larger = hn::Gt(value, best);  // Of equal ones the first stays.
        best = hn::IfThenElse(larger, value, best);
        if constexpr (kTraining) {
          const auto tap = hn::Set(di, static_cast<std::int32_t>(r * size + s));
          best_tap = hn::IfThenElse(hn::RebindMask(di, larger), tap, best_tap);
        }
      }
    }
    hn::StoreU(best, d, y + c);
    if constexpr (kTraining) store_index(d, best_tap, index + c);
  });
}

// Rows first .. last - 1 of y, counted over the batch.
template <bool kTraining, class Index>
void pool_rows(const MaxPool2d::Problem& p, const float* x, float* y, Index* index,
               std::int64_t first, std::int64_t last) {
  const std::int64_t row_stride = p.width * p.channels, out_stride = p.out_width() * p.channels;
  const bool halving = p.window.size == 2 && p.window.stride == 2;
  for (std::int64_t row = first; row < last; ++row) {
    const std::int64_t n = row / p.out_height(), out_row = row % p.out_height();
    const Taps rows = taps(p.window, p.height, out_row);
    const std::int64_t top = p.window.start(p.height, out_row) + rows.first;
    const float* image_row = x + (n * p.height + top) * row_stride;
    for (std::int64_t q = 0; q < p.out_width(); ++q) {
      const Taps columns = taps(p.window, p.width, q);
      const std::int64_t left = p.window.start(p.width, q) + columns.first;
      const std::int64_t offset = row * out_stride + q * p.channels;
      const float* corner = image_row + left * p.channels;
      Index* window_index = kTraining ? index + offset : nullptr;
      if (halving && rows.last == 2 && columns.last == 2) {  // Known bounds unroll the loops.
        pool_window<kTraining>(corner, y + offset, window_index, {0, 2}, {0, 2}, 2, row_stride,
                               p.channels);
      } else {
        pool_window<kTraining>(corner, y + offset, window_index, rows, columns, p.window.size,
                               row_stride, p.channels);
      }
    }
  }
}

// dx of rows first .. last - 1 of y where windows of 2 x 2 cover the image without overlap: each
// element is written once. What no window covers, an odd last row or column, is zero.
template <class Index>
void spread_halves(const MaxPool2d::Problem& p, const float* dy, const Index* index, float* dx,
                   std::int64_t first, std::int64_t last) {
  const std::int64_t row_stride = p.width * p.channels, out_stride = p.out_width() * p.channels;
  const auto pixel_bytes = static_cast<std::size_t>(p.channels) * sizeof(float);
  for (std::int64_t row = first; row < last; ++row) {
    const std::int64_t n = row / p.out_height(), out_row = row % p.out_height();
    float* upper = dx + (n * p.height + 2 * out_row) * row_stride;
    float* lower = upper + row_stride;
    for (std::int64_t q = 0; q < p.out_width(); ++q) {
      const std::int64_t from = row * out_stride + q * p.channels, to = 2 * q * p.channels;
      for_vectors(p.channels, [=](auto d, std::size_t c) HWY_ATTR {
        const auto slope = hn::LoadU(d, dy + from + c);
        const Index* tap = index + from + c;
        const auto part = [=](std::int64_t k)
                              HWY_ATTR { return hn::IfThenElseZero(is_tap(d, tap, k), slope); };
        hn::StoreU(part(0), d, upper + to + c);
        hn::StoreU(part(1), d, upper + to + p.channels + c);
        hn::StoreU(part(2), d, lower + to + c);
        hn::StoreU(part(3), d, lower + to + p.channels + c);
      });
    }
    if (p.width % 2 != 0) {
      std::memset(upper + row_stride - p.channels, 0, pixel_bytes);
      std::memset(lower + row_stride - p.channels, 0, pixel_bytes);
    }
    if (p.height % 2 != 0 && out_row == p.out_height() - 1) {
      std::memset(lower + row_stride, 0, pixel_bytes * static_cast<std::size_t>(p.width));
    }
  }
}

// Adds one row of dy to the row of dx that lies under row `tap_row` of its windows.
template <class Index>
HWY_INLINE void add_row(const MaxPool2d::Problem& p, const float* dy, const Index* index,
                        std::int64_t tap_row, float* dx) {
  for (std::int64_t q = 0; q < p.out_width(); ++q) {
    const Taps columns = taps(p.window, p.width, q);
    const std::int64_t left = p.window.start(p.width, q), from = q * p.channels;
    for (std::int64_t s = columns.first; s < columns.last; ++s) {
      const std::int64_t tap = tap_row * p.window.size + s;
      float* pixel = dx + (left + s) * p.channels;
      for_vectors(p.channels, [=](auto d, std::size_t c) HWY_ATTR {
        const auto slope = hn::LoadU(d, dy + from + c);
        const auto part = hn::IfThenElseZero(is_tap(d, index + from + c, tap), slope);
        hn::StoreU(hn::Add(hn::LoadU(d, pixel + c), part), d, pixel + c);
      });
    }
  }
}

// Rows first .. last - 1 of dx, counted over the batch: each collects from all windows above it, so
// that threads never share a row, however the windows overlap.
template <class Index>
void collect_rows(const MaxPool2d::Problem& p, const float* dy, const Index* index, float* dx,
                  std::int64_t first, std::int64_t last) {
  const std::int64_t row_stride = p.width * p.channels, out_stride = p.out_width() * p.channels;
  const Window& w = p.window;
  for (std::int64_t row = first; row < last; ++row) {
    const std::int64_t n = row / p.height, padded = row % p.height + w.pad_before(p.height);
    float* target = dx + row * row_stride;
    std::memset(target, 0, static_cast<std::size_t>(row_stride) * sizeof(float));
    const Window::Range over = w.covering(p.height, row % p.height);
    for (std::int64_t out_row = over.first; out_row < over.last; ++out_row) {
      const std::int64_t offset = (n * p.out_height() + out_row) * out_stride;
      add_row(p, dy + offset, index + offset, padded - out_row * w.stride, target);
    }
  }
}

void pool_inference(const MaxPool2d::Problem& p, const float* x, float* y, std::int64_t first,
                    std::int64_t last) {
  pool_rows<false, std::uint8_t>(p, x, y, nullptr, first, last);
}
void pool_training_u8(const MaxPool2d::Problem& p, const float* x, float* y, void* index,
                      std::int64_t first, std::int64_t last) {
  pool_rows<true>(p, x, y, static_cast<std::uint8_t*>(index), first, last);
}
void pool_training_i32(const MaxPool2d::Problem& p, const float* x, float* y, void* index,
                       std::int64_t first, std::int64_t last) {
  pool_rows<true>(p, x, y, static_cast<std::int32_t*>(index), first, last);
}
void spread_halves_u8(const MaxPool2d::Problem& p, const float* dy, const void* index, float* dx,
                      std::int64_t first, std::int64_t last) {
  spread_halves(p, dy, static_cast<const std::uint8_t*>(index), dx, first, last);
}
void collect_rows_u8(const MaxPool2d::Problem& p, const float* dy, const void* index, float* dx,
                     std::int64_t first, std::int64_t last) {
  collect_rows(p, dy, static_cast<const std::uint8_t*>(index), dx, first, last);
}
void collect_rows_i32(const MaxPool2d::Problem& p, const float* dy, const void* index, float* dx,
                      std::int64_t first, std::int64_t last) {
  collect_rows(p, dy, static_cast<const std::int32_t*>(index), dx, first, last);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trainbench::native
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trainbench::native {
namespace {

HWY_EXPORT(pool_inference);
HWY_EXPORT(pool_training_u8);
HWY_EXPORT(pool_training_i32);
HWY_EXPORT(spread_halves_u8);
HWY_EXPORT(collect_rows_u8);
HWY_EXPORT(collect_rows_i32);

// In training the state holds, per element of y, which tap of its window was the first maximum: one
// byte where the window has at most 256 taps, else four.
class NativeMaxPool2d final : public MaxPool2d {
 public:
  NativeMaxPool2d(const OpContext& context, const Problem& problem)
      : team_(as_host(context.device).team()),
        problem_(problem),
        inference_(context.inference),
        narrow_(problem.window.size <= 16),
        // Whole windows of 2 x 2 side by side.
        halving_(problem.window.size == 2 && problem.window.stride == 2 &&
                 (problem.window.padding == Padding::kValid ||
                  (problem.height % 2 == 0 && problem.width % 2 == 0))) {
    constexpr std::int64_t kLargest = 46340;  // Taps are counted in 32 bits.
    if (problem.window.size > kLargest) {
      throw Unsupported("native pools windows of at most 46340, not " + describe(problem));
    }
  }

  void forward(Tensor x, Tensor y) override {
    const std::int64_t taps = problem_.window.size * problem_.window.size;
    for_rows(problem_.out_height(), problem_.out_width() * taps,
             [&](std::int64_t first, std::int64_t last) {
               if (inference_) {
                 HWY_DYNAMIC_DISPATCH(pool_inference)(problem_, x.f32(), y.f32(), first, last);
               } else if (narrow_) {
                 HWY_DYNAMIC_DISPATCH(pool_training_u8)
                 (problem_, x.f32(), y.f32(), state(), first, last);
               } else {
                 HWY_DYNAMIC_DISPATCH(pool_training_i32)
                 (problem_, x.f32(), y.f32(), state(), first, last);
               }
             });
  }
  void backward_data(Tensor, Tensor dy, Tensor dx) override {
    if (halving_) {
      return for_rows(problem_.out_height(), 2 * problem_.width,
                      [&](std::int64_t first, std::int64_t last) {
                        HWY_DYNAMIC_DISPATCH(spread_halves_u8)
                        (problem_, dy.f32(), state(), dx.f32(), first, last);
                      });
    }
    for_rows(problem_.height, problem_.width, [&](std::int64_t first, std::int64_t last) {
      if (narrow_) {
        HWY_DYNAMIC_DISPATCH(collect_rows_u8)
        (problem_, dy.f32(), state(), dx.f32(), first, last);
      } else {
        HWY_DYNAMIC_DISPATCH(collect_rows_i32)
        (problem_, dy.f32(), state(), dx.f32(), first, last);
      }
    });
  }
  std::string implementation(Pass) const override { return simd_implementation(); }
  std::size_t state_bytes() const override {
    if (inference_) return 0;
    const std::int64_t outputs =
        problem_.batch * problem_.out_height() * problem_.out_width() * problem_.channels;
    return static_cast<std::size_t>(outputs) * (narrow_ ? 1 : sizeof(std::int32_t));
  }

 private:
  // Over `rows` rows per image that touch `pixels` pixels each.
  template <class Body>
  void for_rows(std::int64_t rows, std::int64_t pixels, const Body& body) {
    constexpr std::int64_t kGrain = 16384;  // Elements: some 1 us.
    const std::int64_t grain = std::max<std::int64_t>(1, kGrain / (pixels * problem_.channels));
    parallel_for(team_, problem_.batch * rows, grain,
                 [&](std::int64_t first, std::int64_t last, int) { body(first, last); });
  }

  ThreadTeam& team_;
  Problem problem_;
  bool inference_;
  bool narrow_;
  bool halving_;
};

}  // namespace

void add_max_pool2d(OpTable& ops) { ops.add<MaxPool2d, NativeMaxPool2d>(); }

}  // namespace trainbench::native
#endif
