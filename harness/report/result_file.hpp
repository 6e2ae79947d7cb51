#pragma once

#include <benchmark/benchmark.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainbench {

using BenchmarkRun = benchmark::BenchmarkReporter::Run;

// The run without values that are not finite, which JSON cannot hold: such counters are left out,
// which the label of a measured run then says; a measured time that is not finite makes an error of
// the run; an aggregate with such a time, as the variation of a mean of zero, is nothing at all.
std::optional<BenchmarkRun> without_non_finite(BenchmarkRun run);

// Appends "warning=<text>" to the facts in the run's label.
void add_warning(BenchmarkRun& run, const std::string& text);

// The results of a run of the program, in the formats of Google Benchmark.
class ResultDocument {
 public:
  void set_context(nlohmann::ordered_json context) { context_ = std::move(context); }
  // Expects finite values.
  void add(const BenchmarkRun& run);
  std::size_t size() const { return entries_.size(); }

  std::string json() const;
  // One column per counter that any run has.
  std::string csv() const;
  std::string text(const std::string& format) const { return format == "csv" ? csv() : json(); }

 private:
  struct Entry {
    nlohmann::ordered_json fields;
    std::map<std::string, double> counters;
    std::string json;  // Of the fields and counters, indented for the document.
  };
  nlohmann::ordered_json context_;
  std::vector<Entry> entries_;
};

// The file behind --benchmark_out=FILE. Results grow in FILE.partial, which is whole at any moment,
// whatever kills the program, and becomes FILE at the end; until then FILE is as it was. Devices
// and pipes are written once, at the end. Errors are std::runtime_error.
class ResultFile {
 public:
  // Throws when the file will not be writable; changes nothing on disk.
  explicit ResultFile(const std::string& path);

  void save(std::string_view text) const;
  void finish(std::string_view text) const;
  void write(std::string_view text, bool complete) const { complete ? finish(text) : save(text); }
  const std::filesystem::path& partial() const { return partial_; }
  bool direct() const { return direct_; }

 private:
  void write_partial(std::string_view text, bool sync) const;

  std::filesystem::path path_, partial_, fresh_;
  bool direct_ = false;
};

}  // namespace trainbench
