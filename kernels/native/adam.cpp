#include "kernels/ops/adam.hpp"

#include <cmath>

#include "kernels/core/op_table.hpp"
#include "kernels/native/native_op.hpp"
#include "kernels/native/simd_target.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/native/adam.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/native/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace trainbench::native {
namespace HWY_NAMESPACE {
namespace {

// Square root and division are exact: the first steps are sign-like, m / sqrt(v) = +-1, and
// approximations would show. `rate` is the learning rate with both bias corrections.
void adam_update(const Adam::Hyperparameters& hyper, double rate, const float* g, float* w,
                 float* m, float* v, std::int64_t count) {
  const auto beta1 = static_cast<float>(hyper.beta1), gain1 = static_cast<float>(1 - hyper.beta1);
  const auto beta2 = static_cast<float>(hyper.beta2), gain2 = static_cast<float>(1 - hyper.beta2);
  const auto scale = static_cast<float>(rate), epsilon = static_cast<float>(hyper.epsilon);
  for_vectors(count, [=](auto d, std::size_t i) HWY_ATTR {
    const auto slope = hn::LoadU(d, g + i);
    const auto first =
        hn::MulAdd(slope, hn::Set(d, gain1), hn::Mul(hn::LoadU(d, m + i), hn::Set(d, beta1)));
    const auto second = hn::MulAdd(hn::Mul(slope, slope), hn::Set(d, gain2),
                                   hn::Mul(hn::LoadU(d, v + i), hn::Set(d, beta2)));
    const auto change =
        hn::Div(hn::Mul(first, hn::Set(d, scale)), hn::Add(hn::Sqrt(second), hn::Set(d, epsilon)));
    hn::StoreU(first, d, m + i);
    hn::StoreU(second, d, v + i);
    hn::StoreU(hn::Sub(hn::LoadU(d, w + i), change), d, w + i);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trainbench::native
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trainbench::native {
namespace {

HWY_EXPORT(adam_update);

class NativeAdam final : public Adam {
 public:
  NativeAdam(const OpContext& context, const Problem& problem)
      : team_(as_host(context.device).team()), problem_(problem) {}

  void update(Tensor g, Tensor w, Tensor m, Tensor v, Tensor step) override {
    auto& updates = *step.as<std::uint32_t>();
    const Hyperparameters& h = problem_.hyper;
    const double t = updates + 1.0;
    const double rate =
        h.learning_rate * std::sqrt(1 - std::pow(h.beta2, t)) / (1 - std::pow(h.beta1, t));
    constexpr std::int64_t kGrain = 2048;  // Elements: some 0.5 us.
    parallel_elements(team_, problem_.elements, kGrain, [&](std::int64_t begin, std::int64_t end) {
      HWY_DYNAMIC_DISPATCH(adam_update)
      (h, rate, g.f32() + begin, w.f32() + begin, m.f32() + begin, v.f32() + begin, end - begin);
    });
    ++updates;
  }
  std::string implementation(Pass) const override { return simd_implementation(); }

 private:
  ThreadTeam& team_;
  Problem problem_;
};

}  // namespace

void add_adam(OpTable& ops) { ops.add<Adam, NativeAdam>(); }

}  // namespace trainbench::native
#endif
