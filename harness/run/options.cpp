#include "harness/run/options.hpp"

#include <benchmark/benchmark.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>

#include "harness/rows/filter.hpp"
#include "harness/run/bench_main.hpp"
#include "harness/run/text.hpp"
#include "kernels/core/thread_team.hpp"

namespace trainbench {
namespace {

constexpr int kMaxThreads = 1024;

// Values as they are on the command line, before they are checked.
struct RawOptions {
  std::string tier, backends, require_backends, threads, min_time, probe_seconds;
  std::string repetitions, time_unit;
  bool help = false, version = false;
};

std::vector<std::string> names(const std::string& flag, const std::string& list) {
  if (list.empty()) return {};
  std::vector<std::string> result = split(list, ',');
  if (std::ranges::find(result, "") != result.end()) {
    throw UsageError(flag + "=" + list + " has an empty name; write " + flag + "=a,b");
  }
  return result;
}

double number(const std::string& flag, std::string text) {
  const std::string given = text;
  // Newer versions of Google Benchmark write seconds as "0.5s".
  if (flag == "--benchmark_min_time" && text.ends_with('s')) text.pop_back();
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !std::isfinite(value) || value < 0) {
    throw UsageError(flag + "=" + given + ": expected a number of seconds, such as 0.5");
  }
  return value;
}

int thread_count(const std::string& text) {
  if (text.empty()) return default_threads();
  char* end = nullptr;
  const long value = std::strtol(text.c_str(), &end, 10);
  if (*end != '\0' || value < 1 || value > kMaxThreads) {
    throw UsageError("--threads=" + text + ": expected a whole number from 1 to " +
                     std::to_string(kMaxThreads));
  }
  return static_cast<int>(value);
}

Tier parse_tier(const std::string& text) {
  static const std::map<std::string, Tier> tiers = {
      {"smoke", Tier::kSmoke}, {"default", Tier::kDefault}, {"full", Tier::kFull}};
  const auto it = tiers.find(text);
  if (it == tiers.end()) throw UsageError("--tier=" + text + ": expected smoke, default or full");
  return it->second;
}

double tier_min_time(const Options& options) {
  if (chooses_among_all_tiers(options) || options.tier == Tier::kFull) return 0.5;
  return options.tier == Tier::kDefault ? 0.1 : 0.01;
}

void check_format(const std::string& flag, const std::string& value, bool console) {
  if (value == "json" || value == "csv" || (console && value == "console")) return;
  throw UsageError(flag + "=" + value + ": expected " + (console ? "console, " : "") +
                   "json or csv" + (value == "console" ? "; the console is standard output" : ""));
}

void declare(CLI::App& app, Options& options, RawOptions& raw) {
  app.set_help_flag("");
  app.allow_extras();
  app.option_defaults()->take_last();
  app.add_option("--tier", raw.tier,
                 "Rows to run: smoke (a minute), default (ten) or full (hours)");
  app.add_option("--backends", raw.backends, "Only rows of these, a,b; see --list_backends");
  app.add_option("--require_backends", raw.require_backends,
                 "Fail unless these backends, a,b, are available");
  app.add_flag("--list_backends", options.list_backends,
               "Print each backend's version, or why it is not available");
  app.add_option("--threads", raw.threads,
                 "CPU threads (as many as affinity and cgroup quota allow)");
  app.add_option("--data_dir", options.data_dir,
                 "Where MNIST and CIFAR-10 are (TRAINBENCH_DATA_DIR)")
      ->envname("TRAINBENCH_DATA_DIR");
  app.add_flag("--help,-h", raw.help, "Print this");
  app.add_flag("--version", raw.version, "Print the version");
  app.add_option("--probe", options.probe)->group("");
  app.add_option("--probe_seconds", raw.probe_seconds)->group("");
}

// Flags of Google Benchmark that the suite takes over, with the variables that stand for them.
void declare_taken_over(CLI::App& app, Options& options, RawOptions& raw) {
  const auto option = [&app](const std::string& name, std::string& value, const char* variable) {
    app.add_option(name, value)->envname(variable)->group("");
  };
  const auto flag = [&app](const std::string& name, bool& value, const char* variable) {
    app.add_flag(name, value)->envname(variable)->group("");
  };
  option("--benchmark_filter", options.filter, "BENCHMARK_FILTER");
  option("--benchmark_format", options.format, "BENCHMARK_FORMAT");
  option("--benchmark_out", options.out, "BENCHMARK_OUT");
  option("--benchmark_out_format", options.out_format, "BENCHMARK_OUT_FORMAT");
  option("--benchmark_min_time", raw.min_time, "BENCHMARK_MIN_TIME");
  option("--benchmark_repetitions", raw.repetitions, "BENCHMARK_REPETITIONS");
  option("--benchmark_time_unit", raw.time_unit, "BENCHMARK_TIME_UNIT");
  flag("--benchmark_list_tests", options.list_tests, "BENCHMARK_LIST_TESTS");
  flag("--benchmark_report_aggregates_only", options.report_aggregates_only,
       "BENCHMARK_REPORT_AGGREGATES_ONLY");
  flag("--benchmark_display_aggregates_only", options.display_aggregates_only,
       "BENCHMARK_DISPLAY_AGGREGATES_ONLY");
}

std::vector<std::string> flags_to_hand_on(const std::vector<std::string>& extras) {
  for (const std::string& extra : extras) {
    if (extra.starts_with("--benchmark_") || extra.starts_with("--v=")) continue;
    if (extra.starts_with('-')) throw UsageError("unknown flag " + extra + "; see --help");
    throw UsageError("unexpected argument '" + extra +
                     "'; flags of Google Benchmark are written --flag=value; see --help");
  }
  return extras;
}

// What Google Benchmark would take badly: no repetitions at all, or a unit that it does not know.
void hand_on_checked(const RawOptions& raw, std::vector<std::string>& flags) {
  if (!raw.repetitions.empty()) {
    char* end = nullptr;
    const long value = std::strtol(raw.repetitions.c_str(), &end, 10);
    if (*end != '\0' || value < 1 || value > 1000000) {
      throw UsageError("--benchmark_repetitions=" + raw.repetitions +
                       ": expected a whole number from 1 to 1000000");
    }
    flags.push_back("--benchmark_repetitions=" + raw.repetitions);
  }
  if (!raw.time_unit.empty()) {
    const std::vector<std::string> units = {"ns", "us", "ms", "s"};
    if (std::ranges::find(units, raw.time_unit) == units.end()) {
      throw UsageError("--benchmark_time_unit=" + raw.time_unit + ": expected ns, us, ms or s");
    }
    flags.push_back("--benchmark_time_unit=" + raw.time_unit);
  }
}

void print_help(const CLI::App& app, const ProgramInfo& info) {
  std::string help = app.help();
  help.erase(help.find_last_not_of('\n') + 1);
  std::cout << help << "\n\nFlags of Google Benchmark:\n" << std::flush;
  benchmark::PrintDefaultHelp();
  std::cout
      << std::flush
      << "A filter is searched in a row's name, with and without its suffix; '-' in front "
         "excludes.\nIt chooses among all rows, or those of --tier if that is given. Results "
         "grow in\nFILE.partial, which becomes --benchmark_out=FILE at the end.\n\nExamples:\n";
  for (const std::string& example : info.examples) std::cout << "  " << example << "\n";
  std::cout << "\nExit status: 0 every row is valid; 1 something failed; 2 only that some points "
               "did\nnot fit in memory; 130 interrupted.\n"
            << std::flush;
}

// Two documents in one stream are none.
void check_one_document(const Options& options) {
  if (options.format == "console" || options.out.empty()) return;
  struct stat out {
  }, standard_output{};
  if (stat(options.out.c_str(), &out) != 0 || fstat(STDOUT_FILENO, &standard_output) != 0) return;
  if (out.st_dev == standard_output.st_dev && out.st_ino == standard_output.st_ino &&
      !S_ISCHR(out.st_mode)) {
    throw UsageError("--benchmark_out and --benchmark_format=" + options.format +
                     " both write to standard output; leave one out");
  }
}

void fill_in(Options& options, const RawOptions& raw) {
  if (!raw.tier.empty()) {
    options.tier = parse_tier(raw.tier);
    options.tier_given = true;
  }
  options.backends = names("--backends", raw.backends);
  options.require_backends = names("--require_backends", raw.require_backends);
  options.threads = thread_count(raw.threads);
  check_format("--benchmark_format", options.format, true);
  check_format("--benchmark_out_format", options.out_format, false);
  try {
    options.min_time = tier_min_time(options);  // Compiles the filter.
  } catch (const std::invalid_argument& error) {
    throw UsageError(error.what());
  }
  // Google Benchmark takes 0 for "not given".
  if (!raw.min_time.empty()) {
    options.min_time = std::max(number("--benchmark_min_time", raw.min_time), 1e-9);
  }
  if (!raw.probe_seconds.empty()) {
    options.probe_seconds = number("--probe_seconds", raw.probe_seconds);
  }
}

}  // namespace

std::vector<std::string> reversed_arguments(int argc, const char* const* argv) {
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    const bool empty_value = argument.starts_with("--") && argument.ends_with('=');
    if (empty_value) argument.pop_back();
    arguments.push_back(std::move(argument));
    if (empty_value) arguments.emplace_back();
  }
  std::ranges::reverse(arguments);
  return arguments;
}

std::optional<int> parse_flags(CLI::App& app, int argc, const char* const* argv) {
  try {
    app.parse(reversed_arguments(argc, argv));
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    app.exit(error);
    return 1;
  }
  return std::nullopt;
}

CommandLine parse_command_line(int argc, const char* const* argv, const ProgramInfo& info) {
  CommandLine line;
  RawOptions raw;
  CLI::App app(info.description, info.name);
  declare(app, line.options, raw);
  declare_taken_over(app, line.options, raw);
  try {
    app.parse(reversed_arguments(argc, argv));
  } catch (const CLI::ParseError& error) {
    throw UsageError(std::string(error.what()) + "; see --help");
  }
  if (raw.help) {
    print_help(app, info);
    line.exit_status = 0;
  } else if (raw.version) {
    std::cout << info.name << ' ' << TRAINBENCH_VERSION << '\n' << std::flush;
    line.exit_status = 0;
  } else {
    line.google_benchmark = flags_to_hand_on(app.remaining());
    hand_on_checked(raw, line.google_benchmark);
    fill_in(line.options, raw);
    check_one_document(line.options);
  }
  return line;
}

}  // namespace trainbench
