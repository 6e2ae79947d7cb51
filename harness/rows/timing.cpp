#include "harness/rows/timing.hpp"

#include <chrono>
#include <cmath>
#include <cstdint>

#include "kernels/core/stop.hpp"

namespace trainbench {

double warm_up(Device& device, const std::function<void()>& call, double limit_seconds) {
  using Clock = std::chrono::steady_clock;
  constexpr double kSteady = 0.05, kShortestMeasurement = 1e-3, kShortestWarmUp = 10e-3;
  constexpr std::int64_t kFewestCalls = 8;  // The first few may all be equally slow.
  const auto seconds_since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  const auto begin = Clock::now();
  std::int64_t all_calls = 0;
  const auto measure = [&](std::int64_t calls) {
    all_calls += calls;
    const auto start = Clock::now();
    for (std::int64_t i = 0; i < calls; ++i) call();
    device.synchronize();
    return seconds_since(start) / static_cast<double>(calls);
  };
  std::int64_t calls = 1;
  double previous = 0, current = measure(calls);
  do {
    check_stop();
    while (current * static_cast<double>(calls) < kShortestMeasurement) {
      calls *= 2;
      current = measure(calls);
    }
    previous = current;
    current = measure(calls);
  } while (seconds_since(begin) < limit_seconds &&
           (seconds_since(begin) < kShortestWarmUp || all_calls < kFewestCalls ||
            std::abs(current - previous) > kSteady * current));
  return current;
}

}  // namespace trainbench
