#pragma once

#include <benchmark/benchmark.h>

#include <optional>
#include <string>
#include <vector>

#include "harness/result_writer.hpp"
#include "harness/row_runner.hpp"
#include "harness/session.hpp"

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

  // The document in the format of standard output.
  std::string text() const { return document_.text(session_.options().format); }
  std::size_t runs() const { return document_.size(); }

 private:
  void print_context(const Context& context);
  void note_failure(const Run& run);
  void save();

  const Session& session_;
  Outcome& outcome_;
  const ResultFile* file_;
  BenchmarkReporter*
      console_;  // Null where standard output is for a machine. Owned by the library.
  std::optional<Context> benchmark_context_;
  ResultDocument document_;
  bool complained_ = false;
};

}  // namespace trainbench
