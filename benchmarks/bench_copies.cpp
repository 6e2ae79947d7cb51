// Copies, from a few bytes up and at the sizes of the models' batches. Rates count what is copied
// once; percent_of_peak counts that it is read and written.
#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/rows/roof_share.hpp"
#include "harness/rows/timing.hpp"
#include "harness/run/bench_main.hpp"
#include "kernels/machine/memory_levels.hpp"

namespace trainbench {
namespace {

enum class Cache { kWarm, kCold };

// Pairs of source and destination in pageable host memory, all pages touched. Warm: one pair, which
// stays in the caches it fits into. Cold: so many pairs that a pair has left the caches when its
// turn comes again, in an order that no prefetcher follows.
class HostCopies {
 public:
  HostCopies(Device& device, std::size_t bytes, Cache cache)
      : bytes_(bytes),
        stride_((bytes + kGuard + Device::kAlignment - 1) / Device::kAlignment *
                Device::kAlignment),
        pairs_(cache == Cache::kWarm ? 1 : cold_pairs(stride_)),
        step_(coprime_step(pairs_)),
        sources_(device, pairs_ * stride_),
        destinations_(device, pairs_ * stride_) {
    for (std::size_t pair = 0; pair < pairs_; ++pair) {
      for (std::size_t i = 0; i < bytes_; ++i) source(pair)[i] = pattern(pair, i);
      std::memset(destination(pair), kPoison, stride_);
    }
    for (std::size_t pair = 0; pair < pairs_; ++pair) copy();
    check();
    call_seconds_ = warm_up(device, [&] { copy(); });
  }

  double call_seconds() const { return call_seconds_; }

  // Copies the next pair.
  void copy() {
    std::memcpy(destination(next_), source(next_), bytes_);
    benchmark::ClobberMemory();
    next_ += step_;
    if (next_ >= pairs_) next_ -= pairs_;
  }

  // Throws std::runtime_error unless every pair was copied, completely and no further.
  void check() const {
    for (std::size_t pair = 0; pair < pairs_; ++pair) {
      const unsigned char* copied = destination(pair);
      for (std::size_t i = 0; i < stride_; ++i) {
        if (copied[i] == (i < bytes_ ? pattern(pair, i) : kPoison)) continue;
        throw std::runtime_error("copy of " + std::to_string(bytes_) + " bytes: byte " +
                                 std::to_string(i) + " is wrong");
      }
    }
  }

 private:
  static constexpr std::size_t kGuard = 64;
  static constexpr unsigned char kPoison = 0xff;
  // Never the poison; the period divides no cache line or page.
  static unsigned char pattern(std::size_t pair, std::size_t i) {
    return static_cast<unsigned char>((i + 31 * pair) % 251);
  }

  // As many as fill a quarter of what memory bandwidth is measured with: more than all caches.
  static std::size_t cold_pairs(std::size_t stride) {
    const std::size_t footprint = memory_levels(allowed_cpus()).back().working_set / 4;
    return std::max<std::size_t>(2, footprint / (2 * stride));
  }
  // Near the golden section of the number of pairs, so that neighbours in time lie far apart.
  static std::size_t coprime_step(std::size_t pairs) {
    std::size_t step = std::max<std::size_t>(1, pairs * 618 / 1000);
    while (std::gcd(step, pairs) != 1) ++step;
    return step;
  }

  unsigned char* source(std::size_t pair) const {
    return reinterpret_cast<unsigned char*>(sources_.at(pair * stride_));
  }
  unsigned char* destination(std::size_t pair) const {
    return reinterpret_cast<unsigned char*>(destinations_.at(pair * stride_));
  }

  std::size_t bytes_;
  std::size_t stride_;  // From pair to pair.
  std::size_t pairs_;
  std::size_t step_;
  std::size_t next_ = 0;
  double call_seconds_ = 0;
  Buffer sources_;
  Buffer destinations_;
};

void time_host_copy(benchmark::State& state, Session& session, const std::string& name,
                    std::size_t bytes, Cache cache) {
  Device& device = session.device(session.reference());
  auto& copies = session.prepared<HostCopies>(
      name, [&] { return std::make_unique<HostCopies>(device, bytes, cache); });
  const Roofs& roofs = session.roofs();
  session.hygiene().restart();
  const double seconds = time_calls(state, device, copies.call_seconds(), [&] { copies.copy(); });
  copies.check();
  const auto copied = static_cast<double>(bytes);
  const double working_set =
      cache == Cache::kWarm ? 2 * copied : std::numeric_limits<double>::infinity();
  const RoofShare share = roof_share(roofs, Precision::kFp32, 0, 2 * copied, working_set, seconds);
  state.counters["bytes_per_second"] = copied / seconds;
  state.counters["percent_of_peak"] = share.percent;
  state.SetLabel("roof=" + share.roof + (share.suspect ? ";warning=suspect: above its roof" : ""));
}

struct CopySize {
  std::size_t bytes;
  Tier tier;
  bool cold;  // Has a row with cold caches, too.
};

// Powers of four, and one batch of: 32 MNIST pictures, 100 CIFAR-10 pictures, those as fp32.
constexpr CopySize kSizes[] = {
    {4, Tier::kDefault, false},         {16, Tier::kFull, false},
    {64, Tier::kFull, false},           {256, Tier::kFull, false},
    {1 << 10, Tier::kFull, false},      {4 << 10, Tier::kSmoke, true},
    {16 << 10, Tier::kFull, false},     {25088, Tier::kDefault, true},
    {64 << 10, Tier::kDefault, false},  {256 << 10, Tier::kFull, false},
    {307200, Tier::kDefault, true},     {1 << 20, Tier::kDefault, false},
    {1228800, Tier::kSmoke, true},      {4 << 20, Tier::kFull, false},
    {16 << 20, Tier::kDefault, false},  {64 << 20, Tier::kFull, false},
    {256 << 20, Tier::kDefault, false},
};

void add_host_copy(std::size_t bytes, Cache cache, Tier tier, std::vector<Row>& rows) {
  std::vector<std::string> axes = {"bytes:" + std::to_string(bytes)};
  if (cache == Cache::kCold) axes.push_back("cache:cold");
  const std::string name = row_name("copy", "h2h", "pageable", "host", "u8", axes);
  rows.push_back({name, tier, "", Precision::kFp32, [=](benchmark::State& state, Session& session) {
                    time_host_copy(state, session, name, bytes, cache);
                  }});
}

std::vector<Row> copy_rows(const Session&) {
  std::vector<Row> rows;
  for (const CopySize& size : kSizes) {
    add_host_copy(size.bytes, Cache::kWarm, size.tier, rows);
    if (size.cold) {
      add_host_copy(size.bytes, Cache::kCold, std::max(size.tier, Tier::kDefault), rows);
    }
  }
  return rows;
}

}  // namespace
}  // namespace trainbench

int main(int argc, char** argv) {
  const trainbench::ProgramInfo info = {"bench_copies",
                                        "Copies within host memory.",
                                        {"bench_copies --tier=full --benchmark_out=copies.json",
                                         "bench_copies --benchmark_filter=bytes:1228800"}};
  return trainbench::run_benchmarks(argc, argv, info, trainbench::copy_rows);
}
