#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace trainbench {

struct ProgramInfo;

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
  bool report_aggregates_only = false, display_aggregates_only = false;
  // Seconds that a row is timed for at least: as given, else the tier's (0.01 smoke, 0.1 default,
  // 0.5 full, and where a filter names rows of any tier).
  double min_time = 0.1;

  std::string probe;          // Hidden: probe this backend in this process and exit.
  double probe_seconds = 30;  // Hidden: time that a backend probed in a child has to answer.
};

// A flag or a value that makes no sense; the message says which and what there is.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct CommandLine {
  Options options;
  std::vector<std::string> google_benchmark;  // Flags to hand on.
  std::optional<int> exit_status;  // Set when nothing is left to do: after --help and --version.
};

// Reads the command line and the environment variables that stand for flags. Prints for --help and
// --version; throws UsageError.
CommandLine parse_command_line(int argc, const char* const* argv, const ProgramInfo& info);

// A command line as CLI11 reads it, from the back. CLI11 takes the next argument as the value of
// "--flag="; here an empty argument of its own says what is meant.
std::vector<std::string> reversed_arguments(int argc, const char* const* argv);

// Parses the flags of a program that has no rows. Returns the exit status when nothing is left to
// do: after --help, or after an error, which is printed.
std::optional<int> parse_flags(CLI::App& app, int argc, const char* const* argv);

}  // namespace trainbench
