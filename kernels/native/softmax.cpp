#include "kernels/ops/softmax.hpp"

#include <algorithm>

#include "kernels/core/op_table.hpp"
#include "kernels/native/native_op.hpp"
#include "kernels/native/simd_target.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/native/softmax.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/native/softmax-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace trainbench::native {
namespace HWY_NAMESPACE {
namespace {

void softmax_rows(const float* x, float* y, std::int64_t rows, std::int64_t classes) {
  const auto count = static_cast<std::size_t>(classes);
  for (std::int64_t b = 0; b < rows; ++b, x += classes, y += classes) {
    softmax_row(x, row_maximum(x, count), y, count);
  }
}

// The sum of a[i] * b[i], in double: it is subtracted from numbers of its own size.
HWY_INLINE double row_dot(const float* a, const float* b, std::size_t count) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> narrow;
  double sum = 0;
  std::size_t i = 0;
  if (count >= hn::Lanes(d)) {
    auto lanes = hn::Zero(d);
    for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
      lanes = hn::MulAdd(hn::PromoteTo(d, hn::LoadU(narrow, a + i)),
                         hn::PromoteTo(d, hn::LoadU(narrow, b + i)), lanes);
    }
    sum = hn::GetLane(hn::SumOfLanes(d, lanes));
  }
  for (; i < count; ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

void softmax_gradient(const float* dy, const float* y, float* dx, std::int64_t rows,
                      std::int64_t classes) {
  const auto count = static_cast<std::size_t>(classes);
  for (std::int64_t b = 0; b < rows; ++b, dy += classes, y += classes, dx += classes) {
    const auto mean = static_cast<float>(row_dot(dy, y, count));  // Of dy, weighted by y.
    for_vectors(classes, [=](auto d, std::size_t i) HWY_ATTR {
      const auto centered = hn::Sub(hn::LoadU(d, dy + i), hn::Set(d, mean));
      hn::StoreU(hn::Mul(hn::LoadU(d, y + i), centered), d, dx + i);
    });
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trainbench::native
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trainbench::native {
namespace {

HWY_EXPORT(softmax_rows);
HWY_EXPORT(softmax_gradient);

class NativeSoftmax final : public Softmax {
 public:
  NativeSoftmax(const OpContext& context, const Problem& problem)
      : team_(as_host(context.device).team()), problem_(problem) {}

  void forward(Tensor x, Tensor y) override {
    for_rows([&](std::int64_t offset, std::int64_t rows) {
      HWY_DYNAMIC_DISPATCH(softmax_rows)
      (x.f32() + offset, y.f32() + offset, rows, problem_.classes);
    });
  }
  void backward_data(Tensor dy, Tensor y, Tensor dx) override {
    for_rows([&](std::int64_t offset, std::int64_t rows) {
      HWY_DYNAMIC_DISPATCH(softmax_gradient)
      (dy.f32() + offset, y.f32() + offset, dx.f32() + offset, rows, problem_.classes);
    });
  }
  std::string implementation(Pass) const override { return simd_implementation(); }

 private:
  // Calls body(first element, rows) on each thread.
  template <class Body>
  void for_rows(const Body& body) {
    constexpr std::int64_t kGrain = 4096;  // Elements: a few us.
    parallel_for(team_, problem_.batch, std::max<std::int64_t>(1, kGrain / problem_.classes),
                 [&](std::int64_t begin, std::int64_t end, int) {
                   body(begin * problem_.classes, end - begin);
                 });
  }

  ThreadTeam& team_;
  Problem problem_;
};

}  // namespace

void add_softmax(OpTable& ops) { ops.add<Softmax, NativeSoftmax>(); }

}  // namespace trainbench::native
#endif
