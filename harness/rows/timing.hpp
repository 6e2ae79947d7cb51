#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <functional>

#include "kernels/core/device.hpp"

namespace trainbench {

// Calls at least 8 times, for at least 10 ms and until two measurements in a row agree within 5 %,
// but for little more than `limit_seconds`; waits. Returns the last measured seconds per call.
double warm_up(Device& device, const std::function<void()>& call, double limit_seconds = 0.25);

// Times `call` for exactly as many iterations as Google Benchmark asks, in batches that last as
// long as the device's stopwatch needs, so that reading the clock costs little; a last batch is
// smaller, since repetitions must not differ in their number of iterations (its checked library
// aborts). Reports the device's time to Google Benchmark as manual time; `estimate` is seconds per
// call, as from warm_up. Returns the mean seconds per call. Beyond the timed calls it spends
// nothing, so Google Benchmark, which stops once the reported time reaches its minimum, bounds the
// row's wall time.
template <class Call>
double time_calls(benchmark::State& state, Device& device, double estimate, Call&& call) {
  constexpr double kMostCalls = 1e4;
  const double wanted = estimate > 0 ? device.shortest_measurement() / estimate : 1;
  const auto batch = static_cast<benchmark::IterationCount>(std::min(wanted, kMostCalls)) + 1;
  const auto stopwatch = device.make_stopwatch();
  double total = 0;
  benchmark::IterationCount calls = 0;
  const auto next = [&] {
    return std::clamp<benchmark::IterationCount>(state.max_iterations - calls, 1, batch);
  };
  for (auto count = next(); state.KeepRunningBatch(count); count = next()) {
    stopwatch->start();
    for (benchmark::IterationCount i = 0; i < count; ++i) call();
    stopwatch->stop();
    const double seconds = stopwatch->seconds();
    state.SetIterationTime(seconds);
    total += seconds;
    calls += count;
  }
  return calls > 0 ? total / static_cast<double>(calls) : 0;
}

}  // namespace trainbench
