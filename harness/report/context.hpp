#pragma once

#include <benchmark/benchmark.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "harness/run/options.hpp"

namespace trainbench {

// What a reader of a result file must know about this build and this machine: facts that are the
// same for all rows.
std::map<std::string, std::string> machine_context(const Options& options);

// "release", "debug", ... as configured.
std::string build_type();

// The context that Google Benchmark writes, with the keys of --benchmark_context, as of now.
nlohmann::ordered_json benchmark_context(const benchmark::BenchmarkReporter::Context& context);

// Whether the installed library of Google Benchmark was compiled with its internal checks, as
// Debian's is, which it tells only in its printed context.
bool library_has_checks(const benchmark::BenchmarkReporter::Context& context);

}  // namespace trainbench
