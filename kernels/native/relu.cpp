#include "kernels/ops/relu.hpp"

#include "kernels/core/op_table.hpp"
#include "kernels/native/native_op.hpp"
#include "kernels/native/simd_target.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/native/relu.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/native/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace trainbench::native {
namespace HWY_NAMESPACE {
namespace {

void relu_forward(const float* x, float* y, std::int64_t count) {
  for_vectors(count, [=](auto d, std::size_t i) HWY_ATTR {
    // x86's maximum gives its second argument when one is NaN: a NaN in x stays visible in y.
    hn::StoreU(hn::Max(hn::Zero(d), hn::LoadU(d, x + i)), d, y + i);
  });
}

void relu_backward(const float* dy, const float* y, float* dx, std::int64_t count) {
  for_vectors(count, [=](auto d, std::size_t i) HWY_ATTR {
    const auto active = hn::Gt(hn::LoadU(d, y + i), hn::Zero(d));
    hn::StoreU(hn::IfThenElseZero(active, hn::LoadU(d, dy + i)), d, dx + i);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trainbench::native
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trainbench::native {
namespace {

HWY_EXPORT(relu_forward);
HWY_EXPORT(relu_backward);

constexpr std::int64_t kGrain = 16384;  // Elements: some 1 us, a few times a fork-join.

class NativeRelu final : public Relu {
 public:
  NativeRelu(const OpContext& context, const Problem& problem)
      : team_(as_host(context.device).team()), elements_(problem.elements) {}

  void forward(Tensor x, Tensor y) override {
    parallel_elements(team_, elements_, kGrain, [&](std::int64_t begin, std::int64_t end) {
      HWY_DYNAMIC_DISPATCH(relu_forward)(x.f32() + begin, y.f32() + begin, end - begin);
    });
  }
  void backward_data(Tensor dy, Tensor y, Tensor dx) override {
    parallel_elements(team_, elements_, kGrain, [&](std::int64_t begin, std::int64_t end) {
      HWY_DYNAMIC_DISPATCH(relu_backward)
      (dy.f32() + begin, y.f32() + begin, dx.f32() + begin, end - begin);
    });
  }
  std::string implementation(Pass) const override { return simd_implementation(); }

 private:
  ThreadTeam& team_;
  std::int64_t elements_;
};

}  // namespace

void add_relu(OpTable& ops) { ops.add<Relu, NativeRelu>(); }

}  // namespace trainbench::native
#endif
