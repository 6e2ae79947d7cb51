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
#include "kernels/native/softmax-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace trainbench::native {
namespace HWY_NAMESPACE {
namespace {

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

// Adds the rows' losses and right predictions to `loss` and `correct`.
void softmax_forward(const float* x, const std::int32_t* labels, float* y, std::int32_t* predicted,
                     std::int64_t rows, std::int64_t classes, double& loss, std::int32_t& correct) {
  const auto count = static_cast<std::size_t>(classes);
  for (std::int64_t b = 0; b < rows; ++b) {
    const float* row = x + b * classes;
    const float maximum = row_maximum(row, count);
    const std::size_t best = first_equal(row, count, maximum);
    const double log_sum = std::log(softmax_row(row, maximum, y + b * classes, count));
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
  ops.add<SoftmaxCrossEntropy, NativeSoftmaxCrossEntropy>();
}

}  // namespace trainbench::native
#endif
