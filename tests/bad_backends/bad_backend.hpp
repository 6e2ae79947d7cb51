#pragma once

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/core/host_backend.hpp"
#include "program/layerwise_program.hpp"
#include "tests/test_support.hpp"

// Backends that are wrong in one way each, made of the reference's ops. The suite must notice.
namespace trainbench::bad {

enum class Bug {
  kNone,
  kSkips,           // Returns without doing anything: outputs are stale.
  kSkipsBackward,   // The same, on the way back only.
  kFirstCallOnly,   // Does nothing from the second call on.
  kUnsynchronised,  // Its work is done only later, although the device has nothing queued any more.
  kNan,             // One value is not a number.
  kZeros,           // All results are zero.
  kOneWrong,        // One value in the middle is off by a thousandth.
  kOverruns,        // Writes one element behind its last operand,
  kUnderruns,       // or before it.
  kSlowStart,       // The first calls are slow, all alike.
  kWrongMask,       // Of dropout: that of another seed.
  kKeepsWeights,    // No bug: Computes with a copy of its weights until told that they changed.
  kStaleWeights,    // The same, but does not listen.
  kUnsupported,     // Cannot be created.
};

constexpr int kSlowCalls = 4;
constexpr auto kSlowness = std::chrono::milliseconds(15);

class SpoiledOp final : public OpObject {
 public:
  SpoiledOp(std::unique_ptr<OpObject> inner, Bug bug) : inner_(std::move(inner)), bug_(bug) {}

  std::string implementation(Pass) const override { return "spoiled"; }

  void parameters_changed() override {
    if (bug_ != Bug::kStaleWeights) weights_.clear();
  }

  void run(Pass pass, std::span<const Tensor> operands) override {
    ++calls_;
    const Tensor& last = operands.back();
    switch (bug_) {
      case Bug::kSkips:
        return;
      case Bug::kSkipsBackward:
        if (pass != Pass::kForward) return;
        break;
      case Bug::kFirstCallOnly:
        if (calls_ > 1) return;
        break;
      case Bug::kUnsynchronised:
        return run_the_call_before(pass, operands);
      case Bug::kSlowStart:
        if (calls_ <= kSlowCalls) std::this_thread::sleep_for(kSlowness);
        break;
      default:
        break;
    }
    if (bug_ == Bug::kKeepsWeights || bug_ == Bug::kStaleWeights) {
      return run_with_kept_weights(pass, operands);
    }
    inner_->run(pass, operands);
    if (last.type != DType::kFloat32) return;
    const std::int64_t count = last.shape.elements();
    if (bug_ == Bug::kNan) last.f32()[count / 2] = std::numeric_limits<float>::quiet_NaN();
    if (bug_ == Bug::kZeros) std::fill(last.f32(), last.f32() + count, 0.0f);
    if (bug_ == Bug::kOneWrong) last.f32()[count / 2] += 1e-3f;
    if (bug_ == Bug::kOverruns) last.f32()[count] = 1;
    if (bug_ == Bug::kUnderruns) last.f32()[-1] = 1;
  }

 private:
  void run_the_call_before(Pass pass, std::span<const Tensor> operands) {
    if (!pending_.empty()) inner_->run(pending_pass_, pending_);
    pending_pass_ = pass;
    pending_.assign(operands.begin(), operands.end());
  }

  // Of a dense layer: weights are the second operand, except where their gradient is computed.
  void run_with_kept_weights(Pass pass, std::span<const Tensor> operands) {
    std::vector<Tensor> changed(operands.begin(), operands.end());
    if (pass != Pass::kBackwardWeights) {
      Tensor& w = changed[1];
      if (weights_.empty()) weights_.assign(w.f32(), w.f32() + w.shape.elements());
      w.data = weights_.data();
    }
    inner_->run(pass, changed);
  }

  std::unique_ptr<OpObject> inner_;
  Bug bug_;
  int calls_ = 0;
  std::vector<float> weights_;
  Pass pending_pass_ = Pass::kForward;
  std::vector<Tensor> pending_;
};

// The reference's op with a bug, as a factory for OpTable::add.
template <TrainingOp Op, Bug kBug>
std::unique_ptr<OpObject> spoiled(const OpContext& context, const typename Op::Problem& problem) {
  typename Op::Problem changed = problem;
  if constexpr (kBug == Bug::kWrongMask) ++changed.seed;
  if constexpr (kBug == Bug::kUnsupported) throw Unsupported("not for " + Op::describe(problem));
  const OpTable reference = test::find_backend("reference").ops();
  return std::make_unique<SpoiledOp>(reference.find<Op>()->create(context, &changed), kBug);
}

// The reference's ops, with a bug in one of them.
template <TrainingOp Op, Bug kBug>
OpTable spoiled_ops() {
  OpTable ops = test::find_backend("reference").ops();
  ops.add<Op>(spoiled<Op, kBug>);
  return ops;
}

// A contestant that shows the harness one set of ops and computes whole programs with another, so
// that checks of programs are put to the test where those of ops see nothing.
class BadBackend final : public HostBackend {
 public:
  BadBackend(OpTable shown, OpTable used) : shown_(std::move(shown)), used_(std::move(used)) {}

  std::string_view name() const override { return "bad"; }
  OpTable ops() const override { return shown_; }
  bool compiles() const override { return true; }
  Probe probe() const override {
    return {.available = true, .reason = "", .version = "bad 1.0", .context = {}};
  }
  std::unique_ptr<Program> compile(const ModelSpec& spec, const CompileOptions& options,
                                   Device& device) const override {
    return make_layerwise_program(used_, device, spec, options);
  }

 private:
  OpTable shown_, used_;
};

}  // namespace trainbench::bad
