#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/run/options.hpp"
#include "kernels/core/op_table.hpp"

namespace trainbench {

// A problem that an op is timed on, with the axes that name it.
struct OpPoint {
  std::vector<std::string> axes;  // "batch:100".
  std::shared_ptr<const OpProblem> problem;
  Tier tier = Tier::kFull;
  std::int64_t batch = 0;  // Samples of one call; 0 where the op knows none.
};

// An op with the problems it is timed on, and the small odd ones that every backend is checked on
// before anything is timed and in the conformance test.
struct OpSuite {
  std::string op;
  std::vector<OpPoint> timed;
  std::vector<std::shared_ptr<const OpProblem>> checks;
};

// All suites, from the files of benchmarks/ops.
std::vector<OpSuite> make_op_suites();

// "name:value".
inline std::string axis(const std::string& name, std::int64_t value) {
  return name + ":" + std::to_string(value);
}

}  // namespace trainbench
