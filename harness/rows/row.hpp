#pragma once

#include <benchmark/benchmark.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/run/options.hpp"
#include "kernels/core/op.hpp"

namespace trainbench {

class Session;

// One benchmark: a complete name and the function that checks, warms and times it.
//
// Timing class and time unit follow from the first part of the name, on every backend:
// op, layer, copy, launch: manual time, us; machine: manual time, ms; step: real time, us; epoch,
// ledger, knee: one iteration, real time, s.
struct Row {
  std::string name = "";  // "op/conv2d/forward/openblas/fp32/batch:100/...", without the suffix.
  Tier tier = Tier::kFull;
  std::string backend = "";  // Probed before the row is registered; empty: needs none.
  Precision precision = Precision::kFp32;
  // Times the row and sets its counters and label. Throws to make it an error row: OutOfMemory
  // when the point does not fit, Interrupted when the user asked to stop.
  std::function<void(benchmark::State&, Session&)> body = {};
};

// "<family>/<subject>/<work>/<backend>/<precision>" and the axes, each "name:value".
std::string row_name(const std::string& family, const std::string& subject, const std::string& work,
                     const std::string& backend, const std::string& precision,
                     const std::vector<std::string>& axes);

// How Google Benchmark times the rows of a family, and in which unit it reports them.
enum class Clock { kManual, kReal, kOnce };
struct FamilyTiming {
  std::string_view family;
  Clock clock;
  benchmark::TimeUnit unit;
};

// By the first part of a name; throws std::logic_error for a family that there is not.
const FamilyTiming& family_timing(std::string_view name);

// What Google Benchmark appends to a row's name: "/manual_time", "/real_time" or
// "/iterations:1/real_time".
std::string_view name_suffix(std::string_view name);

// Throws std::logic_error, saying what is wrong, unless the name has five parts and then axes:
// first those of the problem, which are whole numbers, then those of the variant. Names are lower
// case.
void check_name(const std::string& name);

// Checks all names, and that each is there once.
void check_names(const std::vector<Row>& rows);

}  // namespace trainbench
