#pragma once

#include <functional>
#include <memory>
#include <string>

#include "harness/check/op_case.hpp"
#include "harness/rows/row.hpp"
#include "kernels/core/backend.hpp"

namespace trainbench {

// A row that times one pass of one op at one problem: checks, warms up, times, and sets
//   flops               effective FLOP/s, of the definition's FLOPs without padding taps
//   bytes_per_second    of compulsory traffic
//   percent_of_peak     of the machine's roof, from the FLOPs really executed
//   examples_per_second where the op works on a batch
//   setup_ms            creating the op and its first call
// `check` runs before the op is checked at the row's own shape.
struct OpRow {
  std::string family, subject;  // "op" and "conv2d", or "layer" and "cifar10_cnn.conv4".
  std::shared_ptr<const OpProblem> problem;
  Pass pass = Pass::kForward;
  std::vector<std::string> axes;
  Tier tier = Tier::kFull;
  std::int64_t batch = 0;  // 0: no batch.
  std::function<void(Session&)> check;
  // How the op is created, apart from the precision; of a layer, as its model creates it.
  std::function<CaseOptions(Session&, const Backend&, Precision)> options;
};
Row make_op_row(OpRow row, const Backend& backend, Precision precision);

}  // namespace trainbench
