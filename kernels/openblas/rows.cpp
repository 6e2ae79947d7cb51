#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/openblas/rows.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include <hwy/highway.h>

#include <algorithm>

#include "kernels/openblas/rows.hpp"

HWY_BEFORE_NAMESPACE();
namespace trainbench::openblas {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;

HWY_INLINE std::int64_t lanes() { return static_cast<std::int64_t>(hn::Lanes(Tag())); }

// Calls body(d, i) for vectors of a tag d from element i on, which cover 0 .. count - 1 exactly:
// whole ones, then halves, quarters and so on, since masks are slow on many instruction sets.
template <class Body>
HWY_INLINE void for_vectors(std::int64_t count, const Body& body) {
  std::int64_t i = 0;
  for (; i + lanes() <= count; i += lanes()) body(Tag(), i);
  const auto part = [&](auto d, std::int64_t length) {
    if (lanes() > length && (count & length) != 0) {
      body(d, i);
      i += length;
    }
  };
  part(hn::CappedTag<float, 8>(), 8);
  part(hn::CappedTag<float, 4>(), 4);
  part(hn::CappedTag<float, 2>(), 2);
  part(hn::CappedTag<float, 1>(), 1);
}

HWY_INLINE void copy(const float* in, std::int64_t count, float* out) {
  for_vectors(count, [&](auto d, std::int64_t i) { hn::StoreU(hn::LoadU(d, in + i), d, out + i); });
}

HWY_INLINE void clear(std::int64_t count, float* out) {
  for_vectors(count, [&](auto d, std::int64_t i) { hn::StoreU(hn::Zero(d), d, out + i); });
}

HWY_INLINE void accumulate(const float* in, std::int64_t count, float* out) {
  for_vectors(count, [&](auto d, std::int64_t i) {
    hn::StoreU(hn::Add(hn::LoadU(d, out + i), hn::LoadU(d, in + i)), d, out + i);
  });
}

void Expand(const RowWindows& w, const float* HWY_RESTRICT row, float* HWY_RESTRICT expanded) {
  const std::int64_t length = w.size * w.channels;
  for (std::int64_t q = 0; q < w.positions; ++q, expanded += length) {
    const std::int64_t left = q * w.stride - w.pad;
    if (left >= 0 && left + w.size <= w.pixels) {
      copy(row + left * w.channels, length, expanded);
      continue;
    }
    const std::int64_t first = std::clamp<std::int64_t>(-left, 0, w.size);
    const std::int64_t last = std::clamp<std::int64_t>(w.pixels - left, first, w.size);
    clear(first * w.channels, expanded);
    if (first < last) {
      copy(row + (left + first) * w.channels, (last - first) * w.channels,
           expanded + first * w.channels);
    }
    clear((w.size - last) * w.channels, expanded + last * w.channels);
  }
}

void Collapse(const RowWindows& w, const float* HWY_RESTRICT expanded, float* HWY_RESTRICT row) {
  clear(w.pixels * w.channels, row);
  for (std::int64_t q = 0; q < w.positions; ++q, expanded += w.size * w.channels) {
    const std::int64_t left = q * w.stride - w.pad;
    const std::int64_t first = std::clamp<std::int64_t>(-left, 0, w.size);
    const std::int64_t last = std::clamp<std::int64_t>(w.pixels - left, first, w.size);
    if (first < last) {
      accumulate(expanded + first * w.channels, (last - first) * w.channels,
                 row + (left + first) * w.channels);
    }
  }
}

void FillRows(const float* HWY_RESTRICT values, std::int64_t rows, std::int64_t columns,
              float* HWY_RESTRICT out) {
  if (values == nullptr) return clear(rows * columns, out);
  for (std::int64_t r = 0; r < rows; ++r) copy(values, columns, out + r * columns);
}

void AddBias(const float* HWY_RESTRICT bias, bool relu, std::int64_t rows, std::int64_t columns,
             std::int64_t stride, float* HWY_RESTRICT out) {
  for (std::int64_t r = 0; r < rows; ++r, out += stride) {
    for_vectors(columns, [&](auto d, std::int64_t i) {
      auto value = hn::LoadU(d, out + i);
      if (bias != nullptr) value = hn::Add(value, hn::LoadU(d, bias + i));
      if (relu) value = hn::Max(value, hn::Zero(d));
      hn::StoreU(value, d, out + i);
    });
  }
}

void MaskGradient(const float* HWY_RESTRICT dy, const float* HWY_RESTRICT y, std::int64_t rows,
                  std::int64_t columns, std::int64_t stride, float* HWY_RESTRICT dz) {
  for (std::int64_t r = 0; r < rows; ++r, dy += stride, y += stride, dz += stride) {
    for_vectors(columns, [&](auto d, std::int64_t i) {
      const auto active = hn::Gt(hn::LoadU(d, y + i), hn::Zero(d));
      hn::StoreU(hn::IfThenElseZero(active, hn::LoadU(d, dy + i)), d, dz + i);
    });
  }
}

// One vector of columns at a time, its sums in two registers so that additions overlap.
void AddColumns(const float* HWY_RESTRICT matrix, std::int64_t rows, std::int64_t columns,
                std::int64_t stride, float* HWY_RESTRICT sums) {
  for_vectors(columns, [&](auto d, std::int64_t i) {
    auto even = hn::LoadU(d, sums + i), odd = hn::Zero(d);
    std::int64_t r = 0;
    for (; r + 2 <= rows; r += 2) {
      even = hn::Add(even, hn::LoadU(d, matrix + r * stride + i));
      odd = hn::Add(odd, hn::LoadU(d, matrix + (r + 1) * stride + i));
    }
    if (r < rows) even = hn::Add(even, hn::LoadU(d, matrix + r * stride + i));
    hn::StoreU(hn::Add(even, odd), d, sums + i);
  });
}

void Add(const float* HWY_RESTRICT in, std::int64_t count, float* HWY_RESTRICT out) {
  accumulate(in, count, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace trainbench::openblas
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trainbench::openblas {

HWY_EXPORT(Expand);
HWY_EXPORT(Collapse);
HWY_EXPORT(FillRows);
HWY_EXPORT(AddBias);
HWY_EXPORT(MaskGradient);
HWY_EXPORT(AddColumns);
HWY_EXPORT(Add);

void expand(const RowWindows& windows, const float* row, float* expanded) {
  HWY_DYNAMIC_DISPATCH(Expand)(windows, row, expanded);
}
void collapse(const RowWindows& windows, const float* expanded, float* row) {
  HWY_DYNAMIC_DISPATCH(Collapse)(windows, expanded, row);
}
void fill_rows(const float* values, std::int64_t rows, std::int64_t columns, float* out) {
  HWY_DYNAMIC_DISPATCH(FillRows)(values, rows, columns, out);
}
void add_bias(const float* bias, bool relu, std::int64_t rows, std::int64_t columns,
              std::int64_t stride, float* out) {
  HWY_DYNAMIC_DISPATCH(AddBias)(bias, relu, rows, columns, stride, out);
}
void mask_gradient(const float* dy, const float* y, std::int64_t rows, std::int64_t columns,
                   std::int64_t stride, float* dz) {
  HWY_DYNAMIC_DISPATCH(MaskGradient)(dy, y, rows, columns, stride, dz);
}
void add_columns(const float* matrix, std::int64_t rows, std::int64_t columns, std::int64_t stride,
                 float* sums) {
  HWY_DYNAMIC_DISPATCH(AddColumns)(matrix, rows, columns, stride, sums);
}
void add(const float* in, std::int64_t count, float* out) {
  HWY_DYNAMIC_DISPATCH(Add)(in, count, out);
}

}  // namespace trainbench::openblas
#endif
