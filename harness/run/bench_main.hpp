#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/rows/row.hpp"
#include "harness/run/session.hpp"

namespace trainbench {

// What a bench_* program says about itself in --help.
struct ProgramInfo {
  std::string name;                   // "bench_layers".
  std::string description;            // One line.
  std::vector<std::string> examples;  // Complete command lines.
};

// Makes every candidate row, of all tiers and backends, in the order in which they run. Touches no
// device: backends are probed only after the filter chose among these rows.
using RowsFactory = std::function<std::vector<Row>(const Session&)>;

// The whole life of a bench_* program: reads flags, chooses rows, probes their backends, registers
// and runs them, and writes the results. Returns the exit status: 0 every selected row is valid;
// 1 something failed; 2 only that some points did not fit in memory; 130 after Ctrl-C.
int run_benchmarks(int argc, char** argv, const ProgramInfo& info, const RowsFactory& make_rows);

}  // namespace trainbench
