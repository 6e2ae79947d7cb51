#pragma once

#include <cstdint>
#include <memory>

#include "data/models.hpp"
#include "harness/check/op_case.hpp"
#include "harness/check/op_suite.hpp"
#include "harness/run/session.hpp"
#include "kernels/core/program.hpp"

namespace trainbench {

// Of the weights, orders and dropout masks of every row, and of what its checks compare.
inline constexpr std::uint32_t kRowSeed = 1;

// Checks that a row must pass before it is timed. Each throws std::runtime_error saying what is
// wrong; results are remembered for the process, so rows that share a check run it once.

// Every check problem of the suite, in the pass, on the backend, against the definition.
void check_op(Session& session, const OpSuite& suite, const Backend& backend, Precision precision,
              Pass pass);

// A sample of the outputs of an op that will be timed, at its own shape: the very object.
void check_case(Session& session, OpCase& op_case);

// A model as a row names it.
struct ModelPoint {
  const ModelEntry* entry = nullptr;
  ModelAxes axes;
  std::int64_t batch = 1;

  ModelSpec spec() const { return entry->build(axes); }
};

// The ops that a training step of the model consists of: gathering the batch, the layers, the loss
// and the optimizer, each with the passes that run in a step.
struct StepOp {
  std::string name;  // "conv1", "loss", "adam".
  std::shared_ptr<const OpProblem> problem;
  std::vector<Pass> passes;
};
// The batch is gathered from `samples` samples; 0: from some batches of them.
std::vector<StepOp> step_ops(const ModelSpec& spec, std::int64_t batch, std::int64_t samples = 0);

// Bytes that a step of these ops writes: activations, gradients, parameters, moments. Apart from
// the samples it takes, it reads nothing else.
double step_footprint(const std::vector<StepOp>& ops);

// How a program for batches of `full_batch` creates an op of its steps of `batch` samples: the
// forms that operands come in, and whether its input needs a gradient.
CaseOptions options_in_model(Session& session, const ModelSpec& spec, std::int64_t full_batch,
                             std::int64_t batch, const StepOp& op, const Backend& backend,
                             Precision precision);

// The ops of a step at their shapes, also those of the shorter last batch of an epoch of `samples`
// samples, and five training losses at a small batch and width against
// the reference, within ten times the spread that rounding-sized changes of the weights cause.
void check_model(Session& session, const ModelPoint& point, std::int64_t samples,
                 const Backend& backend, Precision precision);

// `program` in its initial state, of kRowSeed, evaluates up to 32 samples as the reference does.
void check_program(Session& session, const ModelPoint& point, Program& program,
                   const DatasetView& data, Precision precision);

}  // namespace trainbench
