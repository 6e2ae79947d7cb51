// The softmax of one row, compiled once per instruction set: included after hwy/foreach_target.h,
// with Highway's toggling guard instead of #pragma once.
#if defined(TRAINBENCH_NATIVE_SOFTMAX_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TRAINBENCH_NATIVE_SOFTMAX_INL_HPP
#undef TRAINBENCH_NATIVE_SOFTMAX_INL_HPP
#else
#define TRAINBENCH_NATIVE_SOFTMAX_INL_HPP
#endif

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "hwy/highway.h"
#include "kernels/native/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace trainbench::native {
namespace HWY_NAMESPACE {

// exp(x - maximum) for x <= maximum, to 2 units in the last place; 0 where the result would be
// denormal, NaN for NaN. The difference is kept with its rounding error (Knuth's two-sum): the loss
// of a sure row is a sum of these, so their own relative error counts. Difference = q ln 2 + r with
// |r| <= ln 2 / 2 (ln 2 in two parts, Cody and Waite), a Taylor polynomial of degree 7 in r
// (relative error below 2^-27 there), and 2^q through the exponent.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_difference(D d, V x, V maximum) {
  const hn::Rebind<std::int32_t, D> di;
  constexpr float kSmallest = -87.33654f;  // ln of the smallest normal number.
  const V difference = hn::Sub(x, maximum);
  const V back = hn::Sub(difference, x);
  const V error = hn::Sub(hn::Sub(x, hn::Sub(difference, back)), hn::Add(maximum, back));
  const V clamped =
      hn::Max(hn::Set(d, kSmallest), difference);  // Keeps a NaN, its second argument.
  const V q = hn::Round(hn::Mul(clamped, hn::Set(d, 1.44269504f)));
  V r = hn::NegMulAdd(q, hn::Set(d, 0.693359375f), clamped);
  r = hn::Add(hn::NegMulAdd(q, hn::Set(d, -2.12194440e-4f), r), error);
  V p = hn::MulAdd(r, hn::Set(d, 1.0f / 5040), hn::Set(d, 1.0f / 720));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 120));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 24));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 6));
  p = hn::MulAdd(p, r, hn::Set(d, 0.5f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  const auto exponent = hn::Add(hn::ConvertTo(di, q), hn::Set(di, 127));
  const V result = hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<23>(exponent)));
  return hn::IfThenZeroElse(hn::Lt(difference, hn::Set(d, kSmallest)), result);
}

// The first largest of `count` numbers: a NaN in the first place stays, others are passed over.
HWY_INLINE float row_maximum(const float* x, std::size_t count) {
  const FloatTag d;
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  if (std::isnan(x[0])) return x[0];
  float maximum = kLowest;
  std::size_t i = 0;
  if (count >= hn::Lanes(d)) {
    auto lanes = hn::Set(d, kLowest);
    for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
      lanes = hn::Max(hn::LoadU(d, x + i), lanes);
    }
    maximum = hn::GetLane(hn::MaxOfLanes(d, lanes));
  }
  for (; i < count; ++i) maximum = x[i] > maximum ? x[i] : maximum;
  return maximum;
}

HWY_INLINE double row_sum(const float* x, std::size_t count) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> narrow;
  double sum = 0;
  std::size_t i = 0;
  if (count >= hn::Lanes(d)) {
    auto lanes = hn::Zero(d);
    for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
      lanes = hn::Add(lanes, hn::PromoteTo(d, hn::LoadU(narrow, x + i)));
    }
    sum = hn::GetLane(hn::SumOfLanes(d, lanes));
  }
  for (; i < count; ++i) sum += x[i];
  return sum;
}

// One row: y = softmax(x), given the row's maximum. Returns the sum of exp(x - maximum).
HWY_INLINE double softmax_row(const float* x, float maximum, float* y, std::size_t count) {
  const auto classes = static_cast<std::int64_t>(count);
  for_vectors(classes, [=](auto d, std::size_t i) HWY_ATTR {
    hn::StoreU(exp_difference(d, hn::LoadU(d, x + i), hn::Set(d, maximum)), d, y + i);
  });
  const double sum = row_sum(y, count);
  const auto inverse = static_cast<float>(1 / sum);
  for_vectors(classes, [=](auto d, std::size_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::LoadU(d, y + i), hn::Set(d, inverse)), d, y + i);
  });
  return sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace trainbench::native
HWY_AFTER_NAMESPACE();

#endif  // TRAINBENCH_NATIVE_SOFTMAX_INL_HPP
