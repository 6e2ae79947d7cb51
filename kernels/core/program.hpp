#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/core/dataset_view.hpp"
#include "kernels/core/op.hpp"

namespace trainbench {

// Where a program keeps its training data and how batches reach the device.
enum class Input { kResident, kStreamed, kPrefetched };
// How a GPU backend launches its steps. CPU backends know only kStream.
enum class Launch { kDefault, kStream, kGraph, kStep };

struct CompileOptions {
  std::int64_t batch = 1;  // Global batch.
  Precision precision = Precision::kFp32;
  Input input = Input::kResident;
  Launch launch = Launch::kDefault;
  int devices = 1;
  std::uint32_t seed = 0;  // Of the dropout masks.
};

// Results of one training step, before its update.
struct StepMetrics {
  double loss_sum = 0;  // Over the samples of the step's batch.
  std::int64_t correct = 0;
  std::int64_t samples = 0;
};

struct Evaluation {
  double loss_sum = 0;
  std::int64_t correct = 0;
  std::vector<std::int32_t> predicted;  // One class per sample.
};

// Parameters and optimizer state in canonical form: the operands of the layers, in layer order,
// each layer's in the order of its forward pass.
struct ModelState {
  std::vector<float> parameters, first_moments, second_moments;
  std::uint32_t step = 0;  // Updates made so far.
};

struct Phase {
  std::string name;  // "conv1/forward".
  double seconds = 0;
};

// A model compiled for one device, batch size and precision. Owns all its memory from load() on.
// Used by one thread at a time.
class Program {
 public:
  virtual ~Program() = default;

  // Places the training data as the options ask and builds the plan of the shorter last batch.
  // The view must outlive the program's use of it.
  virtual void load(const DatasetView& training) = 0;

  // Queues `steps` steps, the first being step `first_step` of the epoch that `order` describes: a
  // permutation of 0 .. count - 1. An epoch is ceil(count / batch) steps; its last batch may be
  // shorter; the order wraps. Does not wait, but for the copy of an order that it has not seen yet.
  // `order` must stay as it is until wait().
  virtual void train(std::span<const std::uint32_t> order, std::int64_t first_step,
                     std::int64_t steps) = 0;

  // Waits; one entry per step queued since the last wait. Valid until the next call of train().
  virtual std::span<const StepMetrics> wait() = 0;

  // Samples first .. first + count - 1 of `data` through the model in inference: dropout is the
  // identity, and neither training state nor queued steps are disturbed. Waits.
  virtual Evaluation evaluate(const DatasetView& data, std::int64_t first, std::int64_t count) = 0;

  virtual void import_state(const ModelState& state) = 0;  // Waits.
  virtual ModelState export_state() = 0;                   // Waits.

  // Runs `steps` more steps, from the first of the order and at most as many as it has full
  // batches, in separately instrumented form; mean seconds of each phase of a step, in order.
  // Waits.
  virtual std::vector<Phase> trace(std::span<const std::uint32_t> order, std::int64_t steps) = 0;

  // Facts for labels: "key=value;key=value".
  virtual std::string label() const = 0;
  // FLOPs of one full-batch training step: effective (as Work counts) and executed.
  virtual double effective_flops() const = 0;
  virtual double executed_flops() const { return effective_flops(); }
};

}  // namespace trainbench
