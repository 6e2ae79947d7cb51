#include "kernels/ops/gather.hpp"

#include <algorithm>

#include "kernels/core/op_table.hpp"
#include "kernels/native/native_op.hpp"
#include "kernels/native/simd_target.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/native/gather.cpp"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/native/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace trainbench::native {
namespace HWY_NAMESPACE {
namespace {

void prefetch(const std::uint8_t* sample, std::int64_t features) {
  constexpr std::int64_t kLine = 64;
  for (std::int64_t i = 0; i < features; i += kLine) hwy::Prefetch(sample + i);
}

void convert(const std::uint8_t* sample, float* x, std::int64_t features) {
  for_vectors(features, [=](auto d, std::size_t i) HWY_ATTR {
    const hn::Rebind<std::int32_t, decltype(d)> wide;
    const hn::Rebind<std::uint8_t, decltype(d)> bytes;
    const auto value = hn::ConvertTo(d, hn::PromoteTo(wide, hn::LoadU(bytes, sample + i)));
    hn::StoreU(hn::Mul(value, hn::Set(d, 1.0f / 255.0f)), d, x + i);
  });
}

// Rows are scattered over the data set, so those to come are prefetched.
void gather_rows(const std::uint8_t* images, const std::uint32_t* order, float* x,
                 std::int64_t rows, std::int64_t features) {
  constexpr std::int64_t kAhead = 2;
  const auto row = [=](std::int64_t b) { return images + std::int64_t{order[b]} * features; };
  for (std::int64_t b = 0; b < rows; ++b) {
    if (b + kAhead < rows) prefetch(row(b + kAhead), features);
    convert(row(b), x + b * features, features);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trainbench::native
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trainbench::native {
namespace {

HWY_EXPORT(gather_rows);

class NativeGather final : public Gather {
 public:
  NativeGather(const OpContext& context, const Problem& problem)
      : team_(as_host(context.device).team()), problem_(problem) {}

  void gather(Tensor images, Tensor classes, Tensor order, Tensor cursor, Tensor x,
              Tensor labels) override {
    auto& position = *cursor.as<std::uint32_t>();
    const std::int64_t features = problem_.features;
    const std::uint32_t* samples = order.as<std::uint32_t>() + position;
    constexpr std::int64_t kGrainBytes = 8192;  // Some 1 us.
    parallel_for(team_, problem_.batch, std::max<std::int64_t>(1, kGrainBytes / features),
                 [&](std::int64_t begin, std::int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(gather_rows)
                   (images.as<std::uint8_t>(), samples + begin, x.f32() + begin * features,
                    end - begin, features);
                   for (std::int64_t b = begin; b < end; ++b) {
                     labels.as<std::int32_t>()[b] = classes.as<std::uint8_t>()[samples[b]];
                   }
                 });
    const std::int64_t next = position + problem_.batch;
    position = next == problem_.count ? 0 : static_cast<std::uint32_t>(next);
  }
  std::string implementation(Pass) const override { return simd_implementation(); }

 private:
  ThreadTeam& team_;
  Problem problem_;
};

}  // namespace

void add_gather(OpTable& ops) { ops.add<Gather, NativeGather>(); }

}  // namespace trainbench::native
#endif
