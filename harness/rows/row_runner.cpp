#include "harness/rows/row_runner.hpp"

#include <chrono>
#include <cmath>
#include <stdexcept>

#include "kernels/core/device.hpp"
#include "kernels/core/stop.hpp"
#include "kernels/core/thread_team.hpp"

namespace trainbench {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

void RowRunner::enter(benchmark::State& state, const Row& row) {
  if (current_ != row.name) session_.drop_prepared();
  current_ = row.name;
  try {
    check_stop();
    check_wall_time(state, row);
    run_body(state, row);
    return;
  } catch (const Interrupted&) {
    outcome_.interrupted = true;
    skip(state, row, kInterruptedMessage);
  } catch (const OutOfMemory& error) {
    outcome_.out_of_memory.insert(row.name);
    skip(state, row, error.what());
  } catch (const std::bad_alloc&) {
    outcome_.out_of_memory.insert(row.name);
    skip(state, row, "out of host memory; try a smaller batch or width");
  } catch (const std::exception& error) {
    skip(state, row, error.what());
  }
  session_.drop_prepared();  // Nothing of a failed row is used again.
}

void RowRunner::run_body(benchmark::State& state, const Row& row) {
  const PinnedCaller pinned(row.backend.empty() || session_.backend(row.backend).pins_caller());
  const FlushDenormals flush;
  session_.hygiene().restart();
  const double start = now();
  row.body(state, session_);
  const double wall = now() - start;
  if (state.error_occurred()) return;
  if (state.iterations() < state.max_iterations) {
    throw std::logic_error("the row's body returned before its timing loop ended");
  }
  for (const auto& [name, value] : session_.hygiene().counters()) state.counters[name] = value;
  History& history = history_[row.name];
  ++history.entries;
  history.last = {state.max_iterations, state.iterations(), wall};
}

void RowRunner::check_wall_time(const benchmark::State& state, const Row& row) const {
  const auto it = history_.find(row.name);
  if (it == history_.end() || it->second.entries < 2) return;
  const Entry& last = it->second.last;
  const double expected = last.wall_seconds * static_cast<double>(state.max_iterations) /
                          static_cast<double>(last.asked);
  const double limit = 60 + 20 * session_.options().min_time;
  if (state.max_iterations > last.asked && expected > limit) {
    throw std::runtime_error("reaching --benchmark_min_time would take " +
                             std::to_string(std::lround(expected)) +
                             " s: most of what the row does is not timed");
  }
}

// Google Benchmark's library, compiled with its checks, aborts when the repetitions of a row differ
// in their number of iterations, error runs included. So the loop is told to have run as far as
// that of the repetition before.
void RowRunner::skip(benchmark::State& state, const Row& row, const std::string& message) {
  const auto it = history_.find(row.name);
  benchmark::IterationCount expected = state.max_iterations;
  if (it != history_.end() && it->second.last.asked == state.max_iterations) {
    expected = it->second.last.done;
  }
  if (!state.error_occurred() && state.iterations() < expected) {
    state.KeepRunningBatch(expected - state.iterations());
  }
  if (!state.error_occurred()) state.SkipWithError(message.c_str());
}

}  // namespace trainbench
