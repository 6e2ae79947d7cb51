#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/core/backend.hpp"
#include "program/layout_converter.hpp"

namespace trainbench {

class PlainOp;

// How an op is created and checked.
struct CaseOptions {
  Precision precision = Precision::kFp32;
  FillMode mode = FillMode::kUniform;
  bool input_gradient = true;          // As in OpContext.
  std::vector<LayoutHint> hints = {};  // As in OpContext.
  bool plain = false;                  // Activations in canonical form: see PlainOp.
  // Bytes that are touched between two uses of an operand, at least, as by the rest of a step:
  // operands are there in as many copies as fill them, and each call takes the next. 0: one copy.
  double footprint = 0;
};

// One pass of one op for one problem, bound to filled operands on one device. Every operand, state
// and scratch stands between guard words; outputs and scratch start poisoned. Passes that come
// before the one under test run once, so that state which they leave is there.
class OpCase {
 public:
  OpCase(const OpTable& ops, Device& device, std::shared_ptr<const OpProblem> problem, Pass pass,
         const CaseOptions& options = {});
  OpCase(const OpCase&) = delete;
  OpCase& operator=(const OpCase&) = delete;

  // Queues the pass once more. In-out operands go on from where they are. As in training, the
  // parameters are new to the op: what it derives from them is part of the pass.
  void run() {
    op_->parameters_changed();
    used_ = next_;
    next_ = next_ + 1 == bindings_.size() ? 0 : next_ + 1;
    op_->run(pass_, bindings_[used_]);
  }

  // Puts in-out operands back to their first values and poisons the outputs; waits.
  void reset();

  // Runs the pass twice, each time from fresh operands (of copies, the next), and compares the
  // results with the definition: all elements, or a sample of `samples` of each output. Returns
  // what is wrong, or nothing: a wrong or missing value, one that is not finite, a broken guard, a
  // changed input, a result of mostly zeros. With integer operands, an op that is exact on them
  // must be exact.
  std::optional<std::string> check(const OpTable& reference, std::optional<int> samples = {});

  const OpProblem& problem() const { return *problem_; }
  const OpObject& op() const { return *op_; }
  Pass pass() const { return pass_; }
  // FLOPs that a call really executes.
  double executed_flops() const;
  // Activations come and go in canonical form, and whether that takes reorders within the pass.
  bool plain() const { return plain_ != nullptr; }
  bool includes_reorder() const;
  // What creating the op took, in seconds: search, primitives, packing.
  double creation_seconds() const { return creation_seconds_; }
  // Bytes that calls touch before they come back to an operand: of a call's operands, but of a data
  // set only what it takes, times the copies.
  double working_set() const { return static_cast<double>(copies()) * bytes_of_call(); }
  std::size_t copies() const { return bindings_.size(); }

 private:
  struct Value {
    Operand operand;
    Layout layout;
    std::size_t bytes = 0;         // Of one copy, in its layout.
    std::size_t copies = 1;        // Of operands that are shared, one.
    Buffer buffer;                 // All copies, each with guards on both sides.
    std::vector<std::byte> first;  // Canonical, before the pass; of all copies the same.
    void* data(std::size_t copy = 0) const;
  };

  double bytes_of_call() const;
  bool is_shared(const Operand& operand) const;
  void add_value(const Operand& operand, std::uint64_t seed, std::size_t copies);
  void fill_copies(Value& value);
  void round(const Operand& operand, const Layout& layout, std::vector<std::byte>& host) const;
  std::vector<Tensor> bind(Pass pass, std::size_t copy = 0) const;
  Buffer guarded(std::size_t bytes, std::size_t copies = 1);
  void poison(Value& value);
  void poison_scratch();
  std::optional<std::string> broken_guard() const;
  std::optional<std::string> changed_input() const;
  std::optional<std::string> compare(const OpTable& reference, std::optional<int> samples);
  std::string where() const;

  Device& device_;
  std::shared_ptr<const OpProblem> problem_;
  Pass pass_;
  Precision precision_;
  OpTable ops_;
  LayoutConverter converter_;
  FillMode mode_;
  double creation_seconds_ = 0;
  std::unique_ptr<OpObject> op_;
  const PlainOp* plain_ = nullptr;                    // op_, where it is one.
  Buffer state_, scratch_;                            // With guards on both sides.
  std::vector<Operand> list_;                         // Of the pass under test.
  std::map<std::string, Value, std::less<>> values_;  // By operand name, over all passes up to it.
  std::vector<std::vector<Tensor>> bindings_;         // list_, per copy.
  std::size_t next_ = 0, used_ = 0;                   // Copies: of the coming call, of the last.
};

// Fills canonical host memory as the operand's `fill` and the mode say.
void fill_operand(const Operand& operand, FillMode mode, std::uint64_t seed, void* host);

}  // namespace trainbench
