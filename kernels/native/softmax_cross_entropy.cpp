#include "kernels/ops/softmax_cross_entropy.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/core/op_table.hpp"
#include "kernels/native/native_op.hpp"
#include "kernels/native/simd_target.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/native/softmax_cross_entropy.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/native/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace trainbench::native {
namespace HWY_NAMESPACE {
namespace {

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

// Index of the first number equal to `value`; 0 when there is none.
HWY_INLINE std::size_t first_equal(const float* x, std::size_t count, float value) {
  const FloatTag d;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    const auto lane = hn::FindFirstTrue(d, hn::Eq(hn::LoadU(d, x + i), hn::Set(d, value)));
    if (lane >= 0) return i + static_cast<std::size_t>(lane);
  }
  std::size_t index = 0;
  for (std::size_t tail = count; tail-- > i;) index = x[tail] == value ? tail : index;
  return index;
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

// One row: y = softmax(x); `best` becomes the first maximum. Returns the log of the sum of exp(x -
// max x).
HWY_INLINE double softmax_row(const float* x, float* y, std::int64_t classes, std::size_t& best) {
  const auto count = static_cast<std::size_t>(classes);
  const float maximum = row_maximum(x, count);
  best = first_equal(x, count, maximum);
  for_vectors(classes, [=](auto d, std::size_t i) HWY_ATTR {
    hn::StoreU(exp_difference(d, hn::LoadU(d, x + i), hn::Set(d, maximum)), d, y + i);
  });
  const double sum = row_sum(y, count);
  const auto inverse = static_cast<float>(1 / sum);
  for_vectors(classes, [=](auto d, std::size_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::LoadU(d, y + i), hn::Set(d, inverse)), d, y + i);
  });
  return std::log(sum);
}

// Adds the rows' losses and right predictions to `loss` and `correct`.
void softmax_forward(const float* x, const std::int32_t* labels, float* y, std::int32_t* predicted,
                     std::int64_t rows, std::int64_t classes, double& loss, std::int32_t& correct) {
  for (std::int64_t b = 0; b < rows; ++b) {
    const float* row = x + b * classes;
    std::size_t best = 0;
    const double log_sum = softmax_row(row, y + b * classes, classes, best);
    predicted[b] = static_cast<std::int32_t>(best);
    correct += predicted[b] == labels[b] ? 1 : 0;
    const bool valid = labels[b] >= 0 && labels[b] < classes;
    loss += valid ? static_cast<double>(row[best]) - row[labels[b]] + log_sum
                  : std::numeric_limits<double>::quiet_NaN();
  }
}

// dx = (y - one_hot(labels)) * scale.
void softmax_backward(const float* y, const std::int32_t* labels, float* dx, std::int64_t rows,
                      std::int64_t classes, float scale) {
  for_vectors(rows * classes, [=](auto d, std::size_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::LoadU(d, y + i), hn::Set(d, scale)), d, dx + i);
  });
  for (std::int64_t b = 0; b < rows; ++b) {
    if (labels[b] < 0 || labels[b] >= classes) continue;
    const std::int64_t target = b * classes + labels[b];
    dx[target] = (y[target] - 1) * scale;
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trainbench::native
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trainbench::native {
namespace {

HWY_EXPORT(softmax_forward);
HWY_EXPORT(softmax_backward);

class NativeSoftmaxCrossEntropy final : public SoftmaxCrossEntropy {
 public:
  NativeSoftmaxCrossEntropy(const OpContext& context, const Problem& problem)
      : team_(as_host(context.device).team()),
        problem_(problem),
        partials_(static_cast<std::size_t>(team_.size())) {}

  void forward(Tensor x, Tensor labels, Tensor y, Tensor loss, Tensor correct,
               Tensor predicted) override {
    const std::int64_t classes = problem_.classes;
    std::ranges::fill(partials_, Partial{});
    for_rows([&](std::int64_t begin, std::int64_t end, int thread) {
      Partial partial;
      HWY_DYNAMIC_DISPATCH(softmax_forward)
      (x.f32() + begin * classes, labels.as<std::int32_t>() + begin, y.f32() + begin * classes,
       predicted.as<std::int32_t>() + begin, end - begin, classes, partial.loss, partial.correct);
      partials_[static_cast<std::size_t>(thread)] = partial;
    });
    Partial total;
    for (const Partial& partial : partials_) {
      total.loss += partial.loss;
      total.correct += partial.correct;
    }
    *loss.f32() = static_cast<float>(total.loss);
    *correct.as<std::int32_t>() = total.correct;
  }
  void backward_data(Tensor y, Tensor labels, Tensor dx) override {
    const std::int64_t classes = problem_.classes;
    const auto scale = static_cast<float>(1 / static_cast<double>(problem_.batch));
    for_rows([&](std::int64_t begin, std::int64_t end, int) {
      HWY_DYNAMIC_DISPATCH(softmax_backward)
      (y.f32() + begin * classes, labels.as<std::int32_t>() + begin, dx.f32() + begin * classes,
       end - begin, classes, scale);
    });
  }
  std::string implementation(Pass) const override { return simd_implementation(); }

 private:
  // What one thread found; on a cache line of its own.
  struct alignas(64) Partial {
    double loss = 0;
    std::int32_t correct = 0;
  };
  template <class Body>
  void for_rows(const Body& body) {
    constexpr std::int64_t kGrain = 4096;  // Elements: a few us.
    parallel_for(team_, problem_.batch, std::max<std::int64_t>(1, kGrain / problem_.classes), body);
  }

  ThreadTeam& team_;
  Problem problem_;
  std::vector<Partial> partials_;  // Per thread of the team.
};

}  // namespace

void add_softmax_cross_entropy(OpTable& ops) {
  ops.add<SoftmaxCrossEntropy>(create<NativeSoftmaxCrossEntropy>);
}

}  // namespace trainbench::native
#endif
