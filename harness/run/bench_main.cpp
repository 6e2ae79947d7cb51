#include "harness/run/bench_main.hpp"

#include <signal.h>

#include <algorithm>
#include <iomanip>
#include <iostream>
#include <map>
#include <set>
#include <stdexcept>

#include "harness/report/context.hpp"
#include "harness/report/output.hpp"
#include "harness/report/reporter.hpp"
#include "harness/rows/filter.hpp"
#include "harness/rows/row_runner.hpp"
#include "harness/run/probe.hpp"
#include "harness/run/signals.hpp"
#include "harness/run/text.hpp"
#include "kernels/core/stop.hpp"

namespace trainbench {
namespace {

constexpr int kFailed = 1, kDidNotFit = 2, kInterrupted = 130;

using Backends = std::vector<std::unique_ptr<Backend>>;
using Probes = std::map<std::string, Probe, std::less<>>;

// Everything that the suite takes over is set to what leaves it alone, whatever the environment
// variables say that the library read on its own.
// It keeps the pointer to the program's name.
void initialize_google_benchmark(char* program, const CommandLine& line) {
  std::vector<std::string> flags = line.google_benchmark;
  for (const char* flag :
       {"--benchmark_filter=.", "--benchmark_format=console",
        "--benchmark_out=", "--benchmark_out_format=json", "--benchmark_list_tests=false",
        "--benchmark_report_aggregates_only=false", "--benchmark_display_aggregates_only=false"}) {
    flags.emplace_back(flag);
  }
  flags.push_back("--benchmark_min_time=" + std::to_string(line.options.min_time));
  std::vector<char*> argv = {program};
  for (std::string& flag : flags) argv.push_back(flag.data());
  int argc = static_cast<int>(argv.size());
  argv.push_back(nullptr);
  benchmark::Initialize(&argc, argv.data());
  if (argc > 1) {
    throw UsageError("unknown flag or bad value: " + std::string(argv[1]) + "; see --help");
  }
}

std::string known_backends(const Backends& backends) {
  std::vector<std::string> names;
  for (const auto& backend : backends) names.emplace_back(backend->name());
  return join(names, ", ");
}

// Why configure left a backend out; empty when it never heard of it.
std::string absence(const std::string& name) {
  for (const std::string& line : absent_backends()) {
    if (line.starts_with(name + ": ")) return line.substr(name.size() + 2);
  }
  return "";
}

void check_backends(const std::string& flag, const std::vector<std::string>& wanted,
                    const Backends& backends) {
  for (const std::string& name : wanted) {
    const auto same = [&name](const auto& backend) { return backend->name() == name; };
    if (std::ranges::any_of(backends, same)) continue;
    const std::string reason = absence(name);
    if (!reason.empty()) {
      throw UsageError(flag + ": this build has no backend " + name + ": " + reason);
    }
    throw UsageError(flag + ": there is no backend '" + name + "'; this build has " +
                     known_backends(backends));
  }
}

void list_backends(const Backends& backends, const Options& options, const PureStdout& output) {
  std::map<std::string, std::string> lines;
  for (const auto& backend : backends) {
    const Probe probe = probe_backend(*backend, options.probe_seconds);
    std::string& line = lines[std::string(backend->name())];
    line = probe.available ? probe.version : "not available: " + probe.reason;
    for (const auto& [precision, why] : probe.lacking) {
      line += "; no " + std::string(to_string(precision)) + ": " + why;
    }
  }
  for (const std::string& line : absent_backends()) {
    const std::size_t colon = line.find(": ");
    lines[line.substr(0, colon)] = "not in this build: " + line.substr(colon + 2);
  }
  std::size_t width = 0;
  for (const auto& [name, text] : lines) width = std::max(width, name.size());
  std::string table;
  for (const auto& [name, text] : lines) {
    table += name + std::string(width - name.size() + 2, ' ') + text + '\n';
  }
  output.write(table);
}

// Asks the backends that rows need, and those that must be there.
Probes probe_backends(const std::vector<Row>& rows, const Session& session) {
  const Options& options = session.options();
  std::set<std::string> wanted(options.require_backends.begin(), options.require_backends.end());
  for (const Row& row : rows) {
    if (!row.backend.empty()) wanted.insert(row.backend);
  }
  Probes probes;
  for (const std::string& name : wanted) {
    probes[name] = probe_backend(session.backend(name), options.probe_seconds);
    check_stop();
  }
  return probes;
}

// Names the precisions that backends lack here, and leaves their rows out.
void leave_out_precisions(std::vector<Row>& rows, const Probes& probes) {
  for (const auto& [name, probe] : probes) {
    for (const auto& [precision, why] : probe.lacking) {
      const auto is_lacking = [&name, precision](const Row& row) {
        return row.backend == name && row.precision == precision;
      };
      const auto count = std::erase_if(rows, is_lacking);
      if (count == 0) continue;
      std::cerr << "backend " << name << " has no " << to_string(precision)
                << " here (rows left out: " << count << "): " << why << '\n';
    }
  }
}

// Names what is not available, and throws when it is required.
void report_unavailable(const std::vector<Row>& rows, const Probes& probes,
                        const Options& options) {
  std::vector<std::string> missing;
  for (const auto& [name, probe] : probes) {
    if (probe.available) continue;
    const auto count = std::ranges::count(rows, name, &Row::backend);
    std::cerr << "backend " << name << " is not available (rows left out: " << count
              << "): " << probe.reason << '\n';
    if (std::ranges::find(options.require_backends, name) != options.require_backends.end()) {
      missing.push_back(name);
    }
  }
  if (!missing.empty()) {
    throw std::runtime_error("not available, but required: " + join(missing, ", "));
  }
}

std::vector<Row> available_rows(Session& session, const RowsFactory& make_rows) {
  std::vector<Row> all = make_rows(session);
  check_names(all);
  const std::size_t candidates = all.size();
  std::vector<Row> rows = select_rows(std::move(all), session.options());
  const Probes probes = probe_backends(rows, session);
  report_unavailable(rows, probes, session.options());
  if (rows.empty()) {
    throw std::runtime_error("none of " + std::to_string(candidates) +
                             " rows matches; --benchmark_list_tests --tier=full lists all");
  }
  for (const auto& [name, probe] : probes) {
    if (probe.available) session.add_backend_context(session.backend(name), probe);
  }
  std::erase_if(rows, [&probes](const Row& row) {
    return !row.backend.empty() && !probes.find(row.backend)->second.available;
  });
  leave_out_precisions(rows, probes);
  if (rows.empty()) {
    throw std::runtime_error("no row that matches is of an available backend and precision");
  }
  return rows;
}

void register_row(RowRunner& runner, const Row& row) {
  auto* registered = benchmark::RegisterBenchmark(
      row.name.c_str(), [&runner, &row](benchmark::State& state) { runner.enter(state, row); });
  const FamilyTiming& timing = family_timing(row.name);
  registered->Unit(timing.unit);
  if (timing.clock == Clock::kManual) registered->UseManualTime();
  if (timing.clock != Clock::kManual) registered->UseRealTime();
  if (timing.clock == Clock::kOnce) registered->Iterations(1);
}

int exit_status(const Outcome& outcome) {
  for (const auto& [name, message] : outcome.failed) {
    std::cerr << "failed: " << name << ": " << message << '\n';
  }
  for (const std::string& name : outcome.out_of_memory) {
    std::cerr << "did not fit in memory: " << name << '\n';
  }
  if (outcome.interrupted) {
    std::cerr << "interrupted\n";
    return kInterrupted;
  }
  if (!outcome.failed.empty()) return kFailed;
  return outcome.out_of_memory.empty() ? 0 : kDidNotFit;
}

void warn_of_settings(const Options& options) {
  if (build_type() == "debug") {
    std::cerr << "warning: this is a debug build; its times mean nothing (use --preset release)\n";
  }
  if (options.threads > default_threads()) {
    std::cerr << "warning: --threads=" << options.threads << " on " << default_threads()
              << " CPUs that this process may use\n";
  }
}

int run_rows(Session& session, const std::vector<Row>& rows, PureStdout& output) {
  const Options& options = session.options();
  std::optional<ResultFile> file;
  if (!options.out.empty()) file.emplace(options.out);
  for (const auto& [key, value] : machine_context(options)) session.add_context(key, value);
  warn_of_settings(options);

  Outcome outcome;
  RowRunner runner(session, outcome);
  for (const Row& row : rows) register_row(runner, row);
  Reporter reporter(session, outcome, file ? &*file : nullptr);
  benchmark::RunSpecifiedBenchmarks(&reporter, ".");
  session.drop_prepared();

  if (options.format != "console") output.write(reporter.text(options.format));
  output.restore();  // --benchmark_out may name it.
  reporter.finish();
  // Whoever closed the display may still want the file.
  if (!std::cout.flush() && !file) throw std::runtime_error("cannot write standard output");
  return exit_status(outcome);
}

int run(int argc, char** argv, const ProgramInfo& info, const RowsFactory& make_rows) {
  const CommandLine line = parse_command_line(argc, argv, info);
  if (line.exit_status) return *line.exit_status;
  const Options& options = line.options;
  Backends backends = make_backends();
  if (!options.probe.empty()) {
    check_backends("--probe", {options.probe}, backends);
    const Session session(options, std::move(backends));
    answer_probe(session.backend(options.probe), options.probe_seconds);
  }
  initialize_google_benchmark(argv[0], line);
  check_backends("--backends", options.backends, backends);
  check_backends("--require_backends", options.require_backends, backends);
  stop_on_signals();
  // With a result file, a closed terminal or pipe ends the display only.
  if (!options.out.empty()) signal(SIGPIPE, SIG_IGN);
  PureStdout output(options.format != "console" || options.list_backends || options.list_tests);
  if (options.list_backends) {
    list_backends(backends, options, output);
    return 0;
  }
  Session session(options, std::move(backends));
  const std::vector<Row> rows = available_rows(session, make_rows);
  if (options.list_tests) {
    std::string names;
    for (const Row& row : rows) names += row.name + std::string(name_suffix(row.name)) + '\n';
    output.write(names);
    return 0;
  }
  const int status = run_rows(session, rows, output);
  benchmark::Shutdown();
  return status;
}

}  // namespace

int run_benchmarks(int argc, char** argv, const ProgramInfo& info, const RowsFactory& make_rows) {
  try {
    return run(argc, argv, info, make_rows);
  } catch (const Interrupted&) {
    return kInterrupted;
  } catch (const std::exception& error) {
    std::cerr << info.name << ": " << error.what() << '\n';
    return kFailed;
  }
}

}  // namespace trainbench
