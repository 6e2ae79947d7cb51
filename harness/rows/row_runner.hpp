#pragma once

#include <benchmark/benchmark.h>

#include <map>
#include <set>
#include <string>

#include "harness/rows/row.hpp"
#include "harness/run/session.hpp"

namespace trainbench {

// How the rows of a run ended, by name: failures are noted where they are reported.
struct Outcome {
  std::map<std::string, std::string> failed;  // With the first message.
  std::set<std::string> out_of_memory;
  bool interrupted = false;
};

// What a row reports instead of a time when the user asked to stop; such runs are not written.
inline constexpr char kInterruptedMessage[] = "interrupted";

// Enters the bodies of rows for Google Benchmark, which enters a body again with more iterations
// until their time reaches the minimum, and for every repetition. Turns exceptions into error runs,
// records what disturbed the row, and pins the calling thread meanwhile.
//
// Bounds the wall time of an entry: Google Benchmark looks at manual time only, so a body whose
// timed part is a small part of what it does could take for ever. From the second entry on, which
// finds everything prepared, the wall time of the next one is known before it starts; beyond a
// minute and 20 times --benchmark_min_time the row is an error. What a body does before its loop is
// done once per row while that stays prepared (Session::prepared) and each check once per process
// (Session::once). A body that wants to be entered only once runs enough calls per iteration.
class RowRunner {
 public:
  RowRunner(Session& session, Outcome& outcome) : session_(session), outcome_(outcome) {}

  void enter(benchmark::State& state, const Row& row);

 private:
  struct Entry {
    benchmark::IterationCount asked = 0, done = 0;
    double wall_seconds = 0;
  };
  struct History {
    int entries = 0;
    Entry last;  // The last one that was valid.
  };

  void run_body(benchmark::State& state, const Row& row);
  void check_wall_time(const benchmark::State& state, const Row& row) const;
  void skip(benchmark::State& state, const Row& row, const std::string& message);

  Session& session_;
  Outcome& outcome_;
  std::string current_;  // Row that was entered last.
  std::map<std::string, History> history_;
};

}  // namespace trainbench
