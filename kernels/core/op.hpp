#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/core/device.hpp"
#include "kernels/core/tensor.hpp"

namespace trainbench {

// What one call of an op computes. Passes of one op object run in the order they have here: a
// backward pass may use what an earlier pass of the same object left in its state.
enum class Pass { kForward, kBackwardWeights, kBackwardData, kUpdate };

constexpr std::string_view to_string(Pass pass) {
  switch (pass) {
    case Pass::kForward:
      return "forward";
    case Pass::kBackwardWeights:
      return "backward_weights";
    case Pass::kBackwardData:
      return "backward_data";
    case Pass::kUpdate:
      return "update";
  }
  return "?";
}

// The arithmetic of a row. fp32 is IEEE single precision throughout; tf32 rounds the factors of
// products to 11 bits, bf16 to 8 bits; sums and parameters stay fp32.
enum class Precision { kFp32, kTf32, kBf16 };

constexpr std::string_view to_string(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      return "fp32";
    case Precision::kTf32:
      return "tf32";
    case Precision::kBf16:
      return "bf16";
  }
  return "?";
}

// Rounding of one factor, relative: 0 for fp32, whose rounding is counted with the sum's.
constexpr double input_epsilon(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      return 0;
    case Precision::kTf32:
      return 0x1p-11;
    case Precision::kBf16:
      return 0x1p-8;
  }
  return 0;
}

// Arithmetic of one call without the taps that only meet zero padding, and compulsory memory
// traffic in bytes: every input read once, every output written once. The same for every backend.
struct Work {
  double flops = 0;
  double bytes = 0;
};

// A parameter is an input that training changes; its gradient is the output named "d" + name.
enum class Role { kInput, kParameter, kOutput, kInOut };

// Values the harness puts into an operand before a check: what the op can rely on.
struct Fill {
  enum class Kind { kUniform, kPositive, kBelow, kPermutation, kZero };
  Kind kind = Kind::kUniform;  // Uniform in [-1, 1); kPositive: in [0, 1).
  std::int64_t limit = 0;  // kBelow: integers in [0, limit). kPermutation: of 0 .. elements - 1.

  static Fill uniform() { return {}; }
  static Fill positive() { return {Kind::kPositive, 0}; }
  static Fill below(std::int64_t limit) { return {Kind::kBelow, limit}; }
  static Fill permutation() { return {Kind::kPermutation, 0}; }
  static Fill zero() { return {Kind::kZero, 0}; }
};

// How floating operands are filled: as their `fill` says, or with small integers, whose sums and
// products are exact.
enum class FillMode { kUniform, kInteger };

struct Operand {
  std::string_view name;
  Shape shape;
  Role role;
  DType type = DType::kFloat32;
  Fill fill = {};

  std::int64_t elements() const { return shape.elements(); }
  std::size_t bytes() const { return static_cast<std::size_t>(elements()) * size_of(type); }
  bool is_read() const { return role != Role::kOutput; }
  bool is_written() const { return role == Role::kOutput || role == Role::kInOut; }
};

// A backend has the op, but not for this problem. Never counted as a pass.
class Unsupported : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A layout that an input of an op under creation will come in, by operand name.
struct LayoutHint {
  std::string_view operand;
  Layout layout;
};

// What an op object is created for.
struct OpContext {
  Device& device;
  Precision precision = Precision::kFp32;
  bool inference = false;  // Only the forward pass will run; no state for a backward pass is kept.
  bool input_gradient = true;  // backward_data will run; false for the first layer of a model.
  std::span<const LayoutHint> hints = {};

  // Null where nothing is known.
  const Layout* find_hint(std::string_view operand) const {
    for (const LayoutHint& candidate : hints) {
      if (candidate.operand == operand) return &candidate.layout;
    }
    return nullptr;
  }
  // The canonical layout where nothing is known.
  Layout hint(std::string_view operand) const {
    const Layout* found = find_hint(operand);
    return found == nullptr ? Layout{} : *found;
  }
};

// One op for one problem on one device. Creation may search, build primitives and pack; running
// only queues. Owned and used by one thread at a time.
class OpObject {
 public:
  virtual ~OpObject() = default;

  // Queues one pass; does not wait. `operands` itself is read before this returns and may be other
  // memory in the next call. Operands come in the order in which the op's
  // `operands(problem, pass)` lists them, each in the layout that `layout` tells.
  virtual void run(Pass pass, std::span<const Tensor> operands) = 0;

  // The kernel or library routine behind a pass, for labels: "im2col+sgemm".
  virtual std::string implementation(Pass pass) const = 0;
  // FLOPs the pass really executes, or a negative number when they are those of Work.
  virtual double executed_flops(Pass) const { return -1; }
  // Factor on the allowed error of a pass; anything but 1 needs a derivation beside it.
  virtual double error_factor(Pass) const { return 1; }
  // Tells that the parameters handed over from now on may have other values than before. An op may
  // keep what it derives from them, such as another layout, from call to call until then; a new
  // object starts as if told.
  virtual void parameters_changed() {}
  // False for an input that the object does not look at in a pass, since its state holds what it
  // needs.
  virtual bool reads(Pass, std::string_view) const { return true; }
  // The form this object wants an operand in. Asked only for operands of the forward pass: a
  // gradient "dx" has the form of its "x" (see layout_of).
  virtual Layout layout(std::string_view) const { return {}; }

  // Memory the object needs on its device. State outlives a pass and belongs to this object alone;
  // scratch is undefined at the start of a pass and may be shared with other ops.
  virtual std::size_t state_bytes() const { return 0; }
  virtual std::size_t scratch_bytes() const { return 0; }
  void attach(void* state, void* scratch) {
    state_ = state;
    scratch_ = scratch;
  }

 protected:
  void* state() const { return state_; }
  void* scratch() const { return scratch_; }

 private:
  void* state_ = nullptr;
  void* scratch_ = nullptr;
};

// The form of any operand of any pass. Only gradients have names that begin with a d.
inline Layout layout_of(const OpObject& op, std::string_view operand) {
  return op.layout(operand.starts_with('d') ? operand.substr(1) : operand);
}

// What an op header in kernels/ops supplies: everything that is the same for every backend.
// `Op` itself is the interface that a backend implements.
template <class Op>
concept TrainingOp = std::derived_from<Op, OpObject> &&
    requires(const typename Op::Problem& problem, Pass pass) {
  { Op::kName } -> std::convertible_to<std::string_view>;
  { Op::passes(problem) } -> std::same_as<std::vector<Pass>>;
  { Op::operands(problem, pass) } -> std::same_as<std::vector<Operand>>;
  { Op::work(problem, pass) } -> std::same_as<Work>;
  // Terms summed into one output element: K of the tolerance.
  { Op::reduction_length(problem, pass) } -> std::same_as<std::int64_t>;
  { Op::describe(problem) } -> std::same_as<std::string>;
  { Op::validate(problem) } -> std::same_as<void>;  // Throws std::invalid_argument.
};

// An op that can be a layer of a model: x, y, dx and dy are activations of `batch` samples.
template <class Op>
concept LayerOp = TrainingOp<Op> &&
    requires(const typename Op::Config& config, std::int64_t batch, const Shape& sample) {
  { Op::kLayerType } -> std::convertible_to<std::string_view>;  // Keras's name: "Conv2D".
  { Op::problem(config, batch, sample) } -> std::same_as<typename Op::Problem>;
  { Op::output(config, sample) } -> std::same_as<Shape>;
};

// |got - want| may be this times the largest |want| of the operand. K is the reduction length.
double relative_tolerance(Precision precision, std::int64_t reduction_length, double error_factor);

}  // namespace trainbench
