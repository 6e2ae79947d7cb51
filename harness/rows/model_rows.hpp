#pragma once

#include <map>
#include <memory>
#include <string>

#include "data/dataset.hpp"
#include "harness/check/row_checks.hpp"
#include "harness/rows/row.hpp"

namespace trainbench {

// The data sets of a process, each loaded once, by sample shape.
class DataCache {
 public:
  // Also notes the set's name and checksum in the session's context.
  const TrainTest& get(Session& session, const ModelSpec& spec);

 private:
  std::map<std::string, TrainTest> sets_;
};

// A row that trains a whole model. Family "step": the mean of many steps; family "epoch": one pass
// over the data set, or `steps` steps where that is not 0. Checks first, then resets weights,
// moments and order; sets
//   examples_per_second  samples trained per second of wall time
//   ms_per_step          wall time of a step
//   flops                effective FLOP/s
//   percent_of_peak      executed FLOP/s as a share of the FMA peak
//   loss, accuracy       means over the timed samples, while training
//   setup_ms             compiling the program, loading the data, the first step
struct ModelRow {
  std::string family;
  ModelPoint point;
  std::int64_t steps = 0;
  Tier tier = Tier::kFull;
  ProgramVariant variant = {};
};
Row make_model_row(const ModelRow& row, const Backend& backend, Precision precision,
                   const std::shared_ptr<DataCache>& data);

// Whether a backend can train a model, as far as it declares: it is a contestant and compiles
// models or has every op.
bool can_train(const Backend& backend, const ModelSpec& spec);

}  // namespace trainbench
