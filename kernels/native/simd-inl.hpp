// What the kernels share, compiled once per instruction set: included after hwy/foreach_target.h,
// with Highway's toggling guard instead of #pragma once.
#if defined(TRAINBENCH_NATIVE_SIMD_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TRAINBENCH_NATIVE_SIMD_INL_HPP
#undef TRAINBENCH_NATIVE_SIMD_INL_HPP
#else
#define TRAINBENCH_NATIVE_SIMD_INL_HPP
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace trainbench::native {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;

template <class D, class Body>
HWY_INLINE void for_tail(D d, std::size_t i, std::size_t count, const Body& body) {
  if (i + hn::Lanes(d) <= count) {
    body(d, i);
    i += hn::Lanes(d);
  }
  if constexpr (hn::MaxLanes(D()) > 1) for_tail(hn::Half<D>(), i, count, body);
}

// Calls body(tag, i) for vectors that start at element i and cover 0 .. count - 1 exactly: full
// vectors, then for the ragged tail halves, quarters and so on down to one lane. Nothing outside
// the range is touched, and nothing twice, so outputs may be updated in place.
template <class Body>
HWY_INLINE void for_vectors(std::int64_t count, const Body& body) {
  const FloatTag d;
  const auto n = static_cast<std::size_t>(count);
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) body(d, i);
  if (i < n) for_tail(hn::Half<FloatTag>(), i, n, body);
}

}  // namespace HWY_NAMESPACE
}  // namespace trainbench::native
HWY_AFTER_NAMESPACE();

#endif  // TRAINBENCH_NATIVE_SIMD_INL_HPP
