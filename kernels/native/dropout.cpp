#include "kernels/ops/dropout.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/core/op_table.hpp"
#include "kernels/native/native_op.hpp"
#include "kernels/native/simd_target.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/native/dropout.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/native/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace trainbench::native {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR

// Bit j of the mask bytes is set where element j is dropped. `begin` is a multiple of 8.
void dropout_forward(const Dropout::Problem& p, std::uint32_t updates, const float* x, float* y,
                     std::uint8_t* bits, std::size_t begin, std::size_t end) {
  const float scale = Dropout::scale(p.rate);
  for (std::size_t i = begin; i < end; ++i) {
    const bool dropped = Dropout::dropped(p, updates, i);
    if (i % 8 == 0) bits[i / 8] = 0;
    bits[i / 8] = static_cast<std::uint8_t>(bits[i / 8] | (dropped ? 1u << i % 8 : 0u));
    y[i] = dropped ? 0 : x[i] * scale;
  }
}

void dropout_backward(const Dropout::Problem& p, const float* dy, float* dx,
                      const std::uint8_t* bits, std::size_t begin, std::size_t end) {
  const float scale = Dropout::scale(p.rate);
  for (std::size_t i = begin; i < end; ++i) {
    dx[i] = (bits[i / 8] >> i % 8 & 1) != 0 ? 0 : dy[i] * scale;
  }
}

#else

using WordTag = hn::RebindToUnsigned<FloatTag>;
using Words = hn::Vec<WordTag>;
constexpr std::size_t kLanes = hn::MaxLanes(FloatTag());
constexpr std::size_t kPair = 2 * kLanes;  // Elements of one vector of counters.

// Rounds 4 half .. 4 half + 3 of Threefry, half being 0 or 1.
template <std::size_t half>
HWY_INLINE void four_rounds(Words& x, Words& y) {
  constexpr auto& r = threefry::kRotations;
  x = hn::Add(x, y);
  y = hn::Xor(hn::RotateRight<32 - r[4 * half]>(y), x);
  x = hn::Add(x, y);
  y = hn::Xor(hn::RotateRight<32 - r[4 * half + 1]>(y), x);
  x = hn::Add(x, y);
  y = hn::Xor(hn::RotateRight<32 - r[4 * half + 2]>(y), x);
  x = hn::Add(x, y);
  y = hn::Xor(hn::RotateRight<32 - r[4 * half + 3]>(y), x);
}

// The words of kLanes consecutive counters at a time, as threefry::block and Dropout::dropped
// define them.
class MaskGenerator {
 public:
  HWY_INLINE MaskGenerator(const Dropout::Problem& p, std::uint32_t updates)
      : first_(hn::Set(d_, updates + 1)),
        limit_(hn::Set(d_, static_cast<std::uint32_t>(Dropout::threshold(p.rate)))) {
    const std::uint32_t schedule[3] = {p.seed, p.layer, threefry::kParity ^ p.seed ^ p.layer};
    for (std::uint32_t k = 0; k < 6; ++k) {
      x_keys_[k] = hn::Set(d_, schedule[k % 3]);
      y_keys_[k] = hn::Set(d_, schedule[(k + 1) % 3] + k);
    }
    // Interleaving works within blocks of 4 lanes. In this order of the counters the words of the
    // first half of the elements end up in the lower result, those of the second in the upper.
    alignas(64) std::uint32_t order[kLanes];
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      const std::uint32_t within = lane / 4 * 2 + lane % 2;
      order[lane] = lane % 4 < 2 ? within : static_cast<std::uint32_t>(kLanes / 2) + within;
    }
    order_ = hn::Load(d_, order);
  }

  // Which of the elements i .. i + kPair - 1 are dropped; i is a multiple of kPair.
  template <class Mask>
  HWY_INLINE void dropped(std::size_t i, Mask& low, Mask& high) const {
    Words x = hn::Add(first_, x_keys_[0]);
    Words y = hn::Add(hn::Add(order_, hn::Set(d_, static_cast<std::uint32_t>(i / 2))), y_keys_[0]);
    four_rounds<0>(x, y);
    inject<1>(x, y);
    four_rounds<1>(x, y);
    inject<2>(x, y);
    four_rounds<0>(x, y);
    inject<3>(x, y);
    four_rounds<1>(x, y);
    inject<4>(x, y);
    four_rounds<0>(x, y);
    inject<5>(x, y);
    low = hn::RebindMask(FloatTag(), hn::Lt(hn::InterleaveLower(d_, x, y), limit_));
    high = hn::RebindMask(FloatTag(), hn::Lt(hn::InterleaveUpper(d_, x, y), limit_));
  }

 private:
  template <std::size_t k>
  HWY_INLINE void inject(Words& x, Words& y) const {
    x = hn::Add(x, x_keys_[k]);
    y = hn::Add(y, y_keys_[k]);
  }

  static constexpr WordTag d_{};
  Words first_, limit_, order_;
  Words x_keys_[6], y_keys_[6];
};

// Bit j of the mask bytes is set where element j is dropped.
template <class Mask>
HWY_INLINE void store_bits(Mask low, Mask high, std::uint8_t* bits) {
  std::uint64_t first = 0, second = 0;
  hn::StoreMaskBits(FloatTag(), low, reinterpret_cast<std::uint8_t*>(&first));
  hn::StoreMaskBits(FloatTag(), high, reinterpret_cast<std::uint8_t*>(&second));
  first |= second << kLanes;
  std::memcpy(bits, &first, kPair / 8);
}

template <class Mask>
HWY_INLINE void load_bits(const std::uint8_t* bits, Mask& low, Mask& high) {
  std::uint64_t both = 0;
  std::memcpy(&both, bits, kPair / 8);
  low = hn::LoadMaskBits(FloatTag(), reinterpret_cast<const std::uint8_t*>(&both));
  both >>= kLanes;
  high = hn::LoadMaskBits(FloatTag(), reinterpret_cast<const std::uint8_t*>(&both));
}

// y = x * scale, or 0 where dropped, for elements begin .. end - 1, begin being a multiple of
// kPair; masks(i, low, high) tells which.
template <class Masks>
HWY_INLINE void apply(const float* x, float* y, std::size_t begin, std::size_t end, float scale,
                      const Masks& masks) {
  const FloatTag d;
  const auto factor = hn::Set(d, scale);
  const auto pair = [&](std::size_t i, const float* from, float* to) HWY_ATTR {
    hn::Mask<FloatTag> low, high;
    masks(i, low, high);
    hn::StoreU(hn::IfThenZeroElse(low, hn::Mul(hn::LoadU(d, from), factor)), d, to);
    hn::StoreU(hn::IfThenZeroElse(high, hn::Mul(hn::LoadU(d, from + kLanes), factor)), d,
               to + kLanes);
  };
  std::size_t i = begin;
  for (; i + kPair <= end; i += kPair) pair(i, x + i, y + i);
  if (i < end) {
    float padded[kPair] = {};
    std::memcpy(padded, x + i, (end - i) * sizeof(float));
    pair(i, padded, padded);
    std::memcpy(y + i, padded, (end - i) * sizeof(float));
  }
}

void dropout_forward(const Dropout::Problem& p, std::uint32_t updates, const float* x, float* y,
                     std::uint8_t* bits, std::size_t begin, std::size_t end) {
  const MaskGenerator generator(p, updates);
  apply(x, y, begin, end, Dropout::scale(p.rate),
        [&](std::size_t i, auto& low, auto& high) HWY_ATTR {
          generator.dropped(i, low, high);
          store_bits(low, high, bits + i / 8);
        });
}

void dropout_backward(const Dropout::Problem& p, const float* dy, float* dx,
                      const std::uint8_t* bits, std::size_t begin, std::size_t end) {
  apply(dy, dx, begin, end, Dropout::scale(p.rate),
        [&](std::size_t i, auto& low, auto& high) HWY_ATTR { load_bits(bits + i / 8, low, high); });
}

#endif  // HWY_SCALAR

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trainbench::native
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trainbench::native {
namespace {

HWY_EXPORT(dropout_forward);
HWY_EXPORT(dropout_backward);

// Elements whose mask fills a cache line: threads work on whole chunks.
constexpr std::int64_t kChunk = 512;

// Keeps one bit per element in its state, so that only the forward pass makes random words.
class NativeDropout final : public Dropout {
 public:
  NativeDropout(const OpContext& context, const Problem& problem)
      : team_(as_host(context.device).team()), problem_(problem) {}

  void forward(Tensor x, Tensor step, Tensor y) override {
    if (is_trivial()) return trivial(x.f32(), y.f32());
    const std::uint32_t updates = *step.as<std::uint32_t>();
    constexpr std::int64_t kGrain = 4;  // Chunks: 0.5 to 2 us.
    for_chunks(kGrain, [&](std::size_t begin, std::size_t end) {
      HWY_DYNAMIC_DISPATCH(dropout_forward)
      (problem_, updates, x.f32(), y.f32(), bits(), begin, end);
    });
  }
  void backward_data(Tensor dy, Tensor, Tensor dx) override {
    if (is_trivial()) return trivial(dy.f32(), dx.f32());
    constexpr std::int64_t kGrain = 32;  // Chunks: some 1 us.
    for_chunks(kGrain, [&](std::size_t begin, std::size_t end) {
      HWY_DYNAMIC_DISPATCH(dropout_backward)(problem_, dy.f32(), dx.f32(), bits(), begin, end);
    });
  }
  std::string implementation(Pass) const override {
    return is_trivial() ? "memcpy" : simd_implementation();
  }
  std::size_t state_bytes() const override {
    return is_trivial() ? 0 : static_cast<std::size_t>(chunks() * kChunk / 8);
  }

 private:
  bool is_trivial() const { return problem_.rate == 0 || problem_.rate == 1; }
  // Keeps all elements, or none.
  void trivial(const float* x, float* y) {
    for_chunks(32, [&](std::size_t begin, std::size_t end) {
      const std::size_t bytes = (end - begin) * sizeof(float);
      if (problem_.rate == 0) {
        std::memcpy(y + begin, x + begin, bytes);
      } else {
        std::memset(y + begin, 0, bytes);
      }
    });
  }
  std::int64_t chunks() const { return (problem_.elements + kChunk - 1) / kChunk; }
  template <class Body>
  void for_chunks(std::int64_t grain, const Body& body) {
    parallel_for(team_, chunks(), grain, [&](std::int64_t begin, std::int64_t end, int) {
      body(static_cast<std::size_t>(begin * kChunk),
           static_cast<std::size_t>(std::min(end * kChunk, problem_.elements)));
    });
  }
  std::uint8_t* bits() const { return static_cast<std::uint8_t*>(state()); }

  ThreadTeam& team_;
  Problem problem_;
};

}  // namespace

void add_dropout(OpTable& ops) { ops.add<Dropout, NativeDropout>(); }

}  // namespace trainbench::native
#endif
