#include "harness/report/reporter.hpp"

#include <iostream>
#include <optional>
#include <sstream>

#include "harness/report/context.hpp"
#include "harness/run/text.hpp"

namespace trainbench {
namespace {

bool is_aggregate(const BenchmarkRun& run) { return run.run_type == BenchmarkRun::RT_Aggregate; }

// Whether aggregates stand for this run where only those are wanted.
bool is_aggregated(const BenchmarkRun& run) {
  return !is_aggregate(run) && run.repetitions > 1 && !run.error_occurred;
}

void warn_of_disturbance(BenchmarkRun& run) {
  std::map<std::string, double> counters;
  for (const auto& [name, counter] : run.counters) counters[name] = counter.value;
  for (const std::string& warning : hygiene_warnings(counters)) add_warning(run, warning);
}

}  // namespace

Reporter::Reporter(const Session& session, Outcome& outcome, const ResultFile* file)
    : session_(session),
      outcome_(outcome),
      file_(file),
      console_(session.options().format == "console" ? benchmark::CreateDefaultDisplayReporter()
                                                     : nullptr) {}

bool Reporter::ReportContext(const Context& context) {
  context_ = benchmark_context(context);
  if (console_ != nullptr) print_context(context);
  return true;
}

// As Google Benchmark prints it, but for the warning about its library: the loop that is timed is
// inlined from its header and compiled with our flags.
void Reporter::print_context(const Context& context) {
  std::ostringstream text;
  console_->SetErrorStream(&text);
  console_->ReportContext(context);
  console_->SetErrorStream(&std::cerr);
  for (const std::string& line : split(text.str(), '\n')) {
    if (line.find("built as DEBUG") == std::string::npos && !line.empty()) {
      std::cerr << line << '\n';
    }
  }
  if (library_has_checks(context)) {
    std::cerr << "Google Benchmark's library has its internal checks on, as Debian's has "
                 "(library_build_type: debug);\nthe timing loop comes from its header, compiled as "
              << build_type() << ", so times are not affected.\n";
  }
}

void Reporter::ReportRuns(const std::vector<Run>& runs) {
  const Options& options = session_.options();
  std::vector<Run> displayed;
  bool changed = false;
  for (const Run& reported : runs) {
    if (reported.error_occurred && reported.error_message == kInterruptedMessage) continue;
    std::optional<Run> run = without_non_finite(reported);
    if (!run) continue;
    if (run->error_occurred) note_failure(*run);
    if (!is_aggregate(*run)) warn_of_disturbance(*run);
    if (!options.report_aggregates_only || !is_aggregated(*run)) {
      document_.add(*run);
      changed = true;
    }
    const bool aggregates_only = options.report_aggregates_only || options.display_aggregates_only;
    if (aggregates_only && is_aggregated(*run)) continue;
    std::erase_if(run->counters, [](const auto& item) { return is_hygiene_counter(item.first); });
    displayed.push_back(*std::move(run));
  }
  if (changed) save();
  if (console_ != nullptr && !displayed.empty()) console_->ReportRuns(displayed);
}

void Reporter::note_failure(const Run& run) {
  const std::string& name = run.run_name.function_name;
  if (!outcome_.out_of_memory.contains(name)) outcome_.failed.emplace(name, run.error_message);
}

// Bodies may have added to the context since the last time.
std::string Reporter::text(const std::string& format) {
  nlohmann::ordered_json context = context_;
  for (const auto& [key, value] : session_.context()) context[key] = value;
  document_.set_context(std::move(context));
  return document_.text(format);
}

void Reporter::save() {
  if (file_ == nullptr) return;
  try {
    file_->save(text(session_.options().out_format));
  } catch (const std::exception& error) {
    // The disk may have room again later, so only the end decides.
    if (!complained_) std::cerr << error.what() << "; going on with the rows that are left\n";
    complained_ = true;
  }
}

void Reporter::finish() {
  if (file_ == nullptr) return;
  if (outcome_.interrupted) {
    if (document_.size() > 0 && !file_->direct()) {
      std::cerr << "finished rows are in " << file_->partial().string() << '\n';
    }
    return;
  }
  file_->finish(text(session_.options().out_format));
}

}  // namespace trainbench
