#pragma once

#include <string>
#include <vector>

namespace trainbench {

// Rows of a tier are also rows of every larger one.
enum class Tier { kSmoke, kDefault, kFull };

// What the command line of a bench_* program says beside Google Benchmark's own flags.
struct Options {
  Tier tier = Tier::kDefault;
  bool tier_given = false;            // A filter without --tier selects from all rows.
  std::vector<std::string> backends;  // Empty: all.
  std::vector<std::string> require_backends;
  bool list_backends = false;
  int threads = 1;       // min(affinity, cgroup quota) unless given.
  std::string data_dir;  // --data_dir, else TRAINBENCH_DATA_DIR, else empty.

  // Google Benchmark's flags that the suite takes over, and those it needs to know.
  std::string filter = ".";         // Raw; a leading '-' negates.
  std::string format = "console";   // console, json or csv.
  std::string out;                  // --benchmark_out, else BENCHMARK_OUT; empty: none.
  std::string out_format = "json";  // json or csv.
  bool list_tests = false;
  double min_time = 0;  // Seconds; 0: the tier's default.
  std::string probe;    // Hidden: probe this backend in this process and exit.
};

}  // namespace trainbench
