#pragma once

#include <map>
#include <string>
#include <vector>

namespace trainbench {

// What else happened on the machine while a row was timed. Numbers go into the row's counters; the
// same for every row of a run.
//
// Linux counts the CPU time of all processes in ticks, usually of 10 ms; what could be rounding
// (one tick per CPU) is not held against anybody, so in short rows only heavy load shows.
class HygieneWatch {
 public:
  HygieneWatch() : start_(read()) {}

  // Begins anew: what was measured so far does not count.
  void restart() { start_ = read(); }

  // involuntary_switches of this process's threads; other_cpu_percent and steal_percent of all
  // CPUs' time; mhz_start and mhz_end of the calling thread's CPU where the machine tells them.
  std::map<std::string, double> counters() const;

 private:
  struct Sample {
    double wall = 0;             // Seconds.
    double own = 0;              // CPU seconds of this process.
    double busy = 0, steal = 0;  // CPU seconds of all processes, and those that a host took away.
    double involuntary_switches = 0;
    double mhz = 0;  // 0: not known.
  };
  static Sample read();

  Sample start_;
};

// The counters above that only result files show.
bool is_hygiene_counter(const std::string& name);

// What a reader must know about a row with these counters: "other processes used 12 % of the CPUs".
std::vector<std::string> hygiene_warnings(const std::map<std::string, double>& counters);

}  // namespace trainbench
