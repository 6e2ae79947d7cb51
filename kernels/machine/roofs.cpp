#include "kernels/machine/roofs.hpp"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <stdexcept>

#include "kernels/machine/memory_levels.hpp"
#include "kernels/machine/peak.hpp"
#include "kernels/machine/streams.hpp"

namespace trainbench {
namespace {

constexpr double kSecondsPerRoof = 0.05;

// Work of one call over the time of the fastest of all calls within `seconds`, and at least two.
template <class Call>
double best_rate(double work, double seconds, Call&& call) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point first = Clock::now();
  double fastest = std::numeric_limits<double>::infinity(), elapsed = 0;
  for (int calls = 0; calls < 2 || elapsed < seconds; ++calls) {
    const Clock::time_point start = Clock::now();
    call();
    const Clock::time_point stop = Clock::now();
    fastest = std::min(fastest, std::chrono::duration<double>(stop - start).count());
    elapsed = std::chrono::duration<double>(stop - first).count();
  }
  return work / fastest;
}

std::vector<int> team_cpus(ThreadTeam& team) {
  std::vector<int> cpus(static_cast<std::size_t>(team.size()));
  team.run(
      [&](int thread) { cpus[static_cast<std::size_t>(thread)] = std::max(0, sched_getcpu()); });
  return cpus;
}

double measure_peak(ThreadTeam& team, const PeakKernel& kernel) {
  constexpr std::int64_t kRounds = 1 << 18;  // Some 0.5 ms.
  Peak peak(team, kernel);
  const double rate = best_rate(peak.flops(kRounds), kSecondsPerRoof, [&] { peak.run(kRounds); });
  peak.check();
  return rate;
}

double measure_stream(HostDevice& device, Stream stream, const MemoryLevel& level, Stores stores) {
  StreamSweep sweep(device, stream, level.working_set, stores);
  const std::int64_t passes = sweep.passes_per_call();
  const double rate = best_rate(sweep.bytes_per_pass() * static_cast<double>(passes),
                                kSecondsPerRoof / 2, [&] { sweep.run(passes); });
  sweep.check();
  return rate;
}

// Reading is the fastest in some levels, reading and writing at once in others.
MemoryRoof measure_level(HostDevice& device, const MemoryLevel& level) {
  const Stores stores = level.name == "memory" ? Stores::kNonTemporal : Stores::kOrdinary;
  const double rate = std::max(measure_stream(device, Stream::kRead, level, Stores::kOrdinary),
                               measure_stream(device, Stream::kTriad, level, stores));
  return {level.name, level.capacity_bytes, rate};
}

}  // namespace

double Roofs::flops(Precision precision) const {
  switch (precision) {
    case Precision::kFp32:
      return fp32_flops;
    case Precision::kTf32:
      return 0;
    case Precision::kBf16:
      return bf16_flops;
  }
  return 0;
}

const MemoryRoof& Roofs::memory_for(double working_set_bytes) const {
  for (const MemoryRoof& roof : memory) {
    if (working_set_bytes <= roof.capacity_bytes) return roof;
  }
  throw std::logic_error("no memory roof holds the working set: measure_roofs() was not run");
}

Roofs measure_roofs(HostDevice& device) {
  const PinnedCaller pinned;
  Roofs roofs;
  for (const PeakKernel& kernel : peak_kernels()) {
    double& best = kernel.precision == Precision::kBf16 ? roofs.bf16_flops : roofs.fp32_flops;
    best = std::max(best, measure_peak(device.team(), kernel));
  }
  for (const MemoryLevel& level : memory_levels(team_cpus(device.team()))) {
    roofs.memory.push_back(measure_level(device, level));
  }
  return roofs;
}

}  // namespace trainbench
