#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/core/op_table.hpp"
#include "kernels/ops/model_spec.hpp"
#include "program/layout_converter.hpp"
#include "program/naming.hpp"

namespace trainbench {

// The memory that the calls of a program work on, by purpose.
enum class Block {
  kParameters,
  kGradients,
  kFirstMoments,
  kSecondMoments,
  kActivations,  // Also their gradients; placed by lifetime.
  kInput,
  kLabels,
  kPredicted,
  kCounters,
  kMetrics,
  kCount
};

struct Location {
  Block block = Block::kActivations;
  std::size_t offset = 0;
};

using BlockBases = std::array<std::byte*, static_cast<std::size_t>(Block::kCount)>;

// Counters live on the device, so that steps can be queued ahead of each other.
constexpr Location kStepCounter = {Block::kCounters, 0};
constexpr Location kTrainingCursor = {Block::kCounters, Device::kAlignment};
constexpr Location kEvaluationCursor = {Block::kCounters, 2 * Device::kAlignment};
constexpr std::size_t kCounterBytes = 3 * Device::kAlignment;

// One parameter tensor: its place in the blocks of parameters, gradients and moments.
struct ParameterSlot {
  std::string name;  // "conv1.w".
  Operand operand;   // Shape and name.
  Layout layout;
  std::size_t offset = 0, bytes = 0;
};

// One call of an op, ready to run once bound to memory.
struct Call {
  std::string phase;  // "conv1/forward".
  OpObject* op = nullptr;
  std::shared_ptr<const OpProblem> problem;
  Pass pass = Pass::kForward;
  std::vector<Tensor> operands;
  std::vector<Location> locations;  // One per operand.

  void run() const {
    naming(phase, [this] { op->run(pass, operands); });
  }
  void bind(const BlockBases& bases);
};

// The calls of a forward pass, or of forward, loss and backward, for one batch size.
struct StepPlan {
  std::int64_t batch = 0;
  std::vector<OwnedOp> ops;  // With state; their scratch is shared.
  std::vector<Call> calls;
  std::map<std::string, std::vector<LayoutHint>> hints;  // By layer: what its op was told.
  std::size_t loss_call = 0;                             // Position of the loss's forward call.
  std::size_t activation_bytes = 0;
  std::size_t scratch_bytes = 0;
  int reorders = 0;                   // Calls that only change a layout.
  std::int64_t parameters_seen = -1;  // The state of the parameters that the ops were told of.
};

struct PlanRequest {
  const ModelSpec& spec;
  const OpTable& ops;
  Device& device;
  std::int64_t batch;
  Precision precision;
  std::uint32_t seed;  // Of the dropout masks.
  bool inference;
};

// Plans a step. The first plan of a program settles where and in which form parameters lie, in
// `slots`, which is empty then; later plans take that over, and reorder where their ops disagree.
StepPlan plan_step(const PlanRequest& request, std::vector<ParameterSlot>& slots);

}  // namespace trainbench
