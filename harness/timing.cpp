#include "harness/timing.hpp"

#include <chrono>
#include <cmath>

#include "kernels/core/stop.hpp"

namespace trainbench {

double warm_up(Device& device, const std::function<void()>& call, double limit_seconds) {
  using Clock = std::chrono::steady_clock;
  constexpr double kSteady = 0.05, kShortestMeasurement = 1e-3;
  const auto seconds_since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  const auto begin = Clock::now();
  double previous = 0, current = 0;
  do {
    check_stop();
    previous = current;
    const auto start = Clock::now();
    int calls = 0;
    do {
      call();
      device.synchronize();
      ++calls;
    } while (seconds_since(start) < kShortestMeasurement);
    current = seconds_since(start) / calls;
  } while (std::abs(current - previous) > kSteady * current &&
           seconds_since(begin) < limit_seconds);
  return current;
}

}  // namespace trainbench
