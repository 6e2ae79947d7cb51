#include "kernels/machine/streams.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <stdexcept>
#include <string>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/machine/streams.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace trainbench::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Makes the compiler assume that memory has changed, so that no pass is left out.
inline void next_pass() { asm volatile("" ::: "memory"); }

// Eight sums, so that neither the latency of an addition nor that of a load limits the rate.
void read(StreamSweep::Share& share) {
  const hn::ScalableTag<std::uint32_t> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto* b = reinterpret_cast<const std::uint32_t*>(share.b);
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
  for (std::int64_t pass = 0; pass < share.passes; ++pass) {
    for (std::size_t i = 0; i < share.count; i += 8 * lanes) {
      s0 = hn::Add(s0, hn::Load(d, b + i));
      s1 = hn::Add(s1, hn::Load(d, b + i + lanes));
      s2 = hn::Add(s2, hn::Load(d, b + i + 2 * lanes));
      s3 = hn::Add(s3, hn::Load(d, b + i + 3 * lanes));
      s4 = hn::Add(s4, hn::Load(d, b + i + 4 * lanes));
      s5 = hn::Add(s5, hn::Load(d, b + i + 5 * lanes));
      s6 = hn::Add(s6, hn::Load(d, b + i + 6 * lanes));
      s7 = hn::Add(s7, hn::Load(d, b + i + 7 * lanes));
    }
    next_pass();
  }
  const auto low = hn::Add(hn::Add(s0, s1), hn::Add(s2, s3));
  const auto high = hn::Add(hn::Add(s4, s5), hn::Add(s6, s7));
  HWY_ALIGN std::uint32_t sums[StreamSweep::kBlock / 8];
  hn::Store(hn::Add(low, high), d, sums);
  share.sum = 0;
  for (std::size_t lane = 0; lane < lanes; ++lane) share.sum += sums[lane];
}

struct OrdinaryStore {
  template <class D>
  void operator()(hn::Vec<D> value, D d, float* to) const {
    hn::Store(value, d, to);
  }
};

struct NonTemporalStore {
  template <class D>
  void operator()(hn::Vec<D> value, D d, float* to) const {
    hn::Stream(value, d, to);
  }
};

template <class StoreTo>
void triad_with(const StreamSweep::Share& share, StoreTo store) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto scale = hn::Set(d, share.scale);
  float* const a = share.a;
  const float* const b = share.b;
  const float* const c = share.c;
  for (std::int64_t pass = 0; pass < share.passes; ++pass) {
    for (std::size_t i = 0; i < share.count; i += 4 * lanes) {
      const std::size_t i1 = i + lanes, i2 = i + 2 * lanes, i3 = i + 3 * lanes;
      store(hn::MulAdd(scale, hn::Load(d, c + i), hn::Load(d, b + i)), d, a + i);
      store(hn::MulAdd(scale, hn::Load(d, c + i1), hn::Load(d, b + i1)), d, a + i1);
      store(hn::MulAdd(scale, hn::Load(d, c + i2), hn::Load(d, b + i2)), d, a + i2);
      store(hn::MulAdd(scale, hn::Load(d, c + i3), hn::Load(d, b + i3)), d, a + i3);
    }
    next_pass();
  }
}

template <class StoreTo>
void copy_with(const StreamSweep::Share& share, StoreTo store) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  float* const a = share.a;
  const float* const b = share.b;
  for (std::int64_t pass = 0; pass < share.passes; ++pass) {
    for (std::size_t i = 0; i < share.count; i += 4 * lanes) {
      store(hn::Load(d, b + i), d, a + i);
      store(hn::Load(d, b + i + lanes), d, a + i + lanes);
      store(hn::Load(d, b + i + 2 * lanes), d, a + i + 2 * lanes);
      store(hn::Load(d, b + i + 3 * lanes), d, a + i + 3 * lanes);
    }
    next_pass();
  }
}

void triad(StreamSweep::Share& share) { triad_with(share, OrdinaryStore()); }
void copy(StreamSweep::Share& share) { copy_with(share, OrdinaryStore()); }

void triad_non_temporal(StreamSweep::Share& share) {
  triad_with(share, NonTemporalStore());
  hwy::FlushStream();
}

void copy_non_temporal(StreamSweep::Share& share) {
  copy_with(share, NonTemporalStore());
  hwy::FlushStream();
}

}  // namespace trainbench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trainbench {

HWY_EXPORT(read);
HWY_EXPORT(triad);
HWY_EXPORT(triad_non_temporal);
HWY_EXPORT(copy);
HWY_EXPORT(copy_non_temporal);

namespace {

// Arrays hold whole numbers with a period that no vector or cache line divides, so that all sums
// are exact and a value from a wrong place is noticed.
constexpr std::size_t kPeriod = 251;
float element(std::size_t index) { return static_cast<float>(index % kPeriod + 1); }

// Arrays of a thread start at different places within a page, else a store and the loads that
// follow it look dependent to the CPU (4 KiB aliasing).
constexpr std::size_t kStagger = 17 * Device::kAlignment;

// Shares of a page's worth of lines apart, so that the prefetcher of one thread does not take
// another's lines.
constexpr std::size_t kShareAlignment = 4096;

// Smaller blocks are rounded up to a huge page: with 4 KiB pages, which lie anywhere, a working set
// of half an L2 would not fit into it.
constexpr std::size_t kLeastBlock = std::size_t{2} << 20;

std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

// Sum of the bit patterns of element(0) .. element(count - 1), modulo 2^32.
std::uint32_t sum_of_bits(std::size_t count) {
  std::uint32_t period = 0, rest = 0;
  for (std::size_t i = 0; i < kPeriod; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(element(i));
    period += bits;
    if (i < count % kPeriod) rest += bits;
  }
  return static_cast<std::uint32_t>(count / kPeriod) * period + rest;
}

void sweep(StreamSweep::Share& share, Stream stream, Stores stores) {
  const bool non_temporal = stores == Stores::kNonTemporal;
  switch (stream) {
    case Stream::kRead:
      return HWY_DYNAMIC_DISPATCH(read)(share);
    case Stream::kTriad:
      return non_temporal ? HWY_DYNAMIC_DISPATCH(triad_non_temporal)(share)
                          : HWY_DYNAMIC_DISPATCH(triad)(share);
    case Stream::kCopy:
      return non_temporal ? HWY_DYNAMIC_DISPATCH(copy_non_temporal)(share)
                          : HWY_DYNAMIC_DISPATCH(copy)(share);
  }
}

void fill(StreamSweep::Share& share) {
  for (std::size_t i = 0; i < share.count; ++i) {
    share.b[i] = element(i);
    if (share.c != nullptr) share.c[i] = element(i + 1);
    if (share.a != nullptr) share.a[i] = std::numeric_limits<float>::quiet_NaN();
  }
}

}  // namespace

StreamSweep::StreamSweep(HostDevice& device, Stream stream, std::size_t working_set, Stores stores)
    : team_(device.team()),
      stream_(stream),
      stores_(stores),
      arrays_(stream == Stream::kRead   ? 1
              : stream == Stream::kCopy ? 2
                                        : 3),
      shares_(static_cast<std::size_t>(team_.size())) {
  const auto arrays = static_cast<std::size_t>(arrays_);
  const std::size_t wanted = working_set / shares_.size() / arrays / sizeof(float);
  const std::size_t count = std::max(kBlock, wanted / kBlock * kBlock);
  const std::size_t array_bytes = count * sizeof(float) + kStagger;
  const std::size_t share_bytes = round_up(arrays * array_bytes, kShareAlignment);
  memory_ = Buffer(device, std::max(kLeastBlock, share_bytes * shares_.size()));
  team_.run([&](int thread) {
    Share share;
    share.count = count;
    const std::size_t base = static_cast<std::size_t>(thread) * share_bytes;
    const auto array = [&](std::size_t index) {
      return reinterpret_cast<float*>(memory_.at(base + index * array_bytes));
    };
    share.b = array(0);
    if (arrays > 1) share.a = array(1);
    if (arrays > 2) share.c = array(2);
    fill(share);
    shares_[static_cast<std::size_t>(thread)] = share;
  });
}

void StreamSweep::run(std::int64_t passes) {
  team_.run([&](int thread) {
    Share share = shares_[static_cast<std::size_t>(thread)];
    share.passes = passes;
    share.scale = share.scale == 8 ? 1 : share.scale + 1;
    sweep(share, stream_, stores_);
    shares_[static_cast<std::size_t>(thread)] = share;
  });
}

std::int64_t StreamSweep::passes_per_call() const {
  constexpr double kBytesPerThread = 0x1p26;  // At least 0.1 ms in a first-level cache.
  const double share = bytes_per_pass() / static_cast<double>(shares_.size());
  return std::max(std::int64_t{1}, static_cast<std::int64_t>(kBytesPerThread / share));
}

double StreamSweep::bytes_per_pass() const { return static_cast<double>(working_set()); }

std::size_t StreamSweep::working_set() const {
  return shares_.size() * shares_.front().count * static_cast<std::size_t>(arrays_) * sizeof(float);
}

void StreamSweep::check_thread(Share& share) const {
  const float scale = stream_ == Stream::kTriad ? share.scale : 0;
  share.first_wrong = 0;
  while (share.first_wrong < share.count) {
    const std::size_t i = share.first_wrong;
    if (share.a[i] != element(i) + scale * element(i + 1)) break;
    ++share.first_wrong;
  }
}

void StreamSweep::check() const {
  const std::string name = std::string(to_string(stream_)) + " sweep";
  if (shares_.front().passes == 0) throw std::runtime_error(name + ": nothing was swept yet");
  std::vector<Share> shares = shares_;
  if (stream_ != Stream::kRead) {
    team_.run([&](int thread) { check_thread(shares[static_cast<std::size_t>(thread)]); });
  }
  for (const Share& share : shares) {
    if (stream_ == Stream::kRead) {
      const std::uint32_t want =
          static_cast<std::uint32_t>(share.passes) * sum_of_bits(share.count);
      if (share.sum != want) {
        throw std::runtime_error(name + ": the sum is " + std::to_string(share.sum) +
                                 " instead of " + std::to_string(want));
      }
    } else if (share.first_wrong != share.count) {
      throw std::runtime_error(name + ": wrong result in element " +
                               std::to_string(share.first_wrong));
    }
  }
}

}  // namespace trainbench
#endif  // HWY_ONCE
