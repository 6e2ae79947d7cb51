#pragma once

#include <benchmark/benchmark.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/report/result_file.hpp"
#include "harness/rows/row_runner.hpp"
#include "harness/run/session.hpp"

namespace trainbench {

// Google Benchmark's display reporter of a run: keeps every finished run in a document, which goes
// to the result file after each row, and hands it to the console.
class Reporter : public benchmark::BenchmarkReporter {
 public:
  // `file` may be null: no --benchmark_out.
  Reporter(const Session& session, Outcome& outcome, const ResultFile* file);

  bool ReportContext(const Context& context) override;
  void ReportRuns(const std::vector<Run>& runs) override;

  // Writes the result file for good, unless the run was interrupted; says where results are.
  void finish();

  // The results so far as "json" or "csv".
  std::string text(const std::string& format);

 private:
  void print_context(const Context& context);
  void note_failure(const Run& run);
  void save();

  const Session& session_;
  Outcome& outcome_;
  const ResultFile* file_;
  BenchmarkReporter*
      console_;  // Null where standard output is for a machine. Owned by the library.
  nlohmann::ordered_json context_;  // Of Google Benchmark.
  ResultDocument document_;
  bool complained_ = false;
};

}  // namespace trainbench
