// The harness is held against backends that are wrong on purpose: each must be caught, and the same
// ops without a bug must pass.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <typeinfo>

#include "harness/check/op_case.hpp"
#include "harness/check/op_suite.hpp"
#include "harness/check/row_checks.hpp"
#include "harness/rows/timing.hpp"
#include "kernels/core/stop.hpp"
#include "kernels/ops/adam.hpp"
#include "kernels/ops/gather.hpp"
#include "kernels/ops/relu.hpp"
#include "kernels/ops/softmax_cross_entropy.hpp"
#include "program/naming.hpp"
#include "tests/bad_backends/bad_backend.hpp"

namespace trainbench {
namespace {

using bad::Bug;
using ::testing::HasSubstr;

// A session with the reference and a backend of bad ops.
struct Trial {
  Trial(OpTable shown, OpTable used)
      : session(two_threads(), backends(std::move(shown), std::move(used))) {}

  static Options two_threads() {
    Options options;
    options.threads = 2;
    return options;
  }
  static std::vector<std::unique_ptr<Backend>> backends(OpTable shown, OpTable used) {
    std::vector<std::unique_ptr<Backend>> list;
    for (auto& backend : make_backends()) {
      if (!backend->contends()) list.push_back(std::move(backend));
    }
    list.push_back(std::make_unique<bad::BadBackend>(std::move(shown), std::move(used)));
    return list;
  }
  const Backend& bad() const { return session.backend("bad"); }

  Session session;
};

template <class Check>
std::string verdict(Check&& check) {
  try {
    check();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "passed";
}

// What the check before an op's row says.
template <TrainingOp Op, Bug kBug>
std::string op_verdict(Pass pass) {
  Trial trial(bad::spoiled_ops<Op, kBug>(), {});
  for (const OpSuite& suite : make_op_suites()) {
    if (suite.op != Op::kName) continue;
    return verdict([&] { check_op(trial.session, suite, trial.bad(), Precision::kFp32, pass); });
  }
  throw std::logic_error("no suite");
}

// What the check before a model's rows says when its programs use a bad op that no row shows.
template <TrainingOp Op, Bug kBug>
std::string model_verdict() {
  Trial trial(test::find_backend("reference").ops(), bad::spoiled_ops<Op, kBug>());
  const ModelEntry& entry = find_model("mnist_mlp");
  const ModelPoint point{&entry, entry.axes({{"depth", 1}, {"width", 32}}), 8};
  return verdict([&] { check_model(trial.session, point, 100, trial.bad(), Precision::kFp32); });
}

// What the check of the very program says that a row is about to time.
template <TrainingOp Op, Bug kBug>
std::string program_verdict() {
  Trial trial(test::find_backend("reference").ops(), bad::spoiled_ops<Op, kBug>());
  const ModelEntry& entry = find_model("mnist_mlp");
  const ModelPoint point{&entry, entry.axes({{"depth", 1}, {"width", 32}}), 8};
  const ModelSpec spec = point.spec();
  const Dataset data = synthetic(spec.sample, spec.classes(), 40, 1);
  const auto program =
      make_program(trial.bad(), trial.session.device(trial.bad()), spec, {.batch = 8});
  program->import_state(initial_state(spec, 1));
  return verdict(
      [&] { check_program(trial.session, point, *program, data.view(), Precision::kFp32); });
}

TEST(BadOps, GoodOnesPass) {
  EXPECT_EQ((op_verdict<Dense, Bug::kNone>(Pass::kForward)), "passed");
  EXPECT_EQ((op_verdict<Dense, Bug::kNone>(Pass::kBackwardWeights)), "passed");
  EXPECT_EQ((op_verdict<Adam, Bug::kNone>(Pass::kUpdate)), "passed");
  EXPECT_EQ((op_verdict<Dropout, Bug::kNone>(Pass::kBackwardData)), "passed");
}

TEST(BadOps, StaleOutputIsCaught) {
  EXPECT_THAT((op_verdict<Relu, Bug::kSkips>(Pass::kForward)), HasSubstr("y[0] is nan"));
  EXPECT_THAT((op_verdict<Adam, Bug::kSkips>(Pass::kUpdate)), HasSubstr("check failed"));
  EXPECT_THAT((op_verdict<Gather, Bug::kSkips>(Pass::kForward)), HasSubstr("check failed"));
  EXPECT_THAT((op_verdict<SoftmaxCrossEntropy, Bug::kSkips>(Pass::kForward)),
              HasSubstr("check failed"));
}

TEST(BadOps, WorkOnlyInTheFirstCallIsCaught) {
  EXPECT_THAT((op_verdict<Relu, Bug::kFirstCallOnly>(Pass::kForward)), HasSubstr("y[0] is nan"));
  EXPECT_THAT((op_verdict<Adam, Bug::kFirstCallOnly>(Pass::kUpdate)), HasSubstr("check failed"));
}

TEST(BadOps, SkippedBackwardIsCaught) {
  EXPECT_EQ((op_verdict<Dense, Bug::kSkipsBackward>(Pass::kForward)), "passed");
  EXPECT_THAT((op_verdict<Dense, Bug::kSkipsBackward>(Pass::kBackwardWeights)),
              HasSubstr("dw[0] is nan"));
  EXPECT_THAT((op_verdict<Conv2d, Bug::kSkipsBackward>(Pass::kBackwardData)),
              HasSubstr("dx[0] is nan"));
}

TEST(BadOps, UnfinishedWorkIsCaught) {
  EXPECT_THAT((op_verdict<Dense, Bug::kUnsynchronised>(Pass::kForward)), HasSubstr("is nan"));
  EXPECT_THAT((op_verdict<Adam, Bug::kUnsynchronised>(Pass::kUpdate)), HasSubstr("check failed"));
}

TEST(BadOps, NanIsCaught) {
  EXPECT_THAT((op_verdict<Dense, Bug::kNan>(Pass::kForward)), HasSubstr("is nan"));
  EXPECT_THAT((op_verdict<MaxPool2d, Bug::kNan>(Pass::kBackwardData)), HasSubstr("is nan"));
}

TEST(BadOps, OneWrongValueIsCaught) {
  EXPECT_THAT((op_verdict<Conv2d, Bug::kOneWrong>(Pass::kForward)), HasSubstr("should be"));
  EXPECT_THAT((op_verdict<Conv2d, Bug::kOneWrong>(Pass::kBackwardWeights)), HasSubstr("should be"));
}

TEST(BadOps, ZerosAreCaught) {
  EXPECT_THAT((op_verdict<Relu, Bug::kZeros>(Pass::kForward)), HasSubstr("is 0, should be"));
}

TEST(BadOps, WritesOutOfBoundsAreCaught) {
  EXPECT_THAT((op_verdict<Dense, Bug::kOverruns>(Pass::kForward)),
              HasSubstr("wrote behind the operand y"));
  EXPECT_THAT((op_verdict<Dense, Bug::kUnderruns>(Pass::kForward)),
              HasSubstr("wrote before the operand y"));
}

TEST(BadOps, WrongMaskIsCaught) {
  EXPECT_THAT((op_verdict<Dropout, Bug::kWrongMask>(Pass::kForward)), HasSubstr("should be"));
  EXPECT_THAT((op_verdict<Dropout, Bug::kWrongMask>(Pass::kBackwardData)), HasSubstr("should be"));
}

TEST(BadOps, AMissingOpIsNoPass) {
  Trial trial({}, {});
  for (const OpSuite& suite : make_op_suites()) {
    EXPECT_THAT(verdict([&] {
                  check_op(trial.session, suite, trial.bad(), Precision::kFp32,
                           suite.checks.front()->passes().front());
                }),
                HasSubstr("no " + suite.op));
  }
}

// A result that would be zero almost everywhere cannot tell right from wrong.
TEST(BadOps, MostlyZerosAreNotTrusted) {
  const Backend& reference = test::find_backend("reference");
  const auto device = reference.open_device({});
  const auto problem = make_problem<Dropout>({.elements = 1000, .rate = 0.99});
  OpCase op_case(reference.ops(), *device, problem, Pass::kForward);
  EXPECT_THAT(op_case.check(reference.ops()).value_or("passed"), HasSubstr("mostly zeros"));
}

TEST(BadOps, SlowStartIsHiddenByWarmUp) {
  const OpTable ops = bad::spoiled_ops<Relu, Bug::kSlowStart>();
  HostDevice device(1);
  OpCase op_case(ops, device, make_problem<Relu>({.elements = 64}), Pass::kForward);
  const double slow = std::chrono::duration<double>(bad::kSlowness).count();
  EXPECT_LT(warm_up(device, [&] { op_case.run(); }), slow / 2);
}

TEST(BadPrograms, GoodOnesPass) {
  EXPECT_EQ((model_verdict<Dense, Bug::kNone>()), "passed");
  EXPECT_EQ((program_verdict<Dense, Bug::kNone>()), "passed");
}

TEST(BadPrograms, WrongMaskIsCaught) {
  EXPECT_THAT((model_verdict<Dropout, Bug::kWrongMask>()), HasSubstr("the loss of step"));
}

TEST(BadPrograms, SkippedBackwardIsCaught) {
  EXPECT_THAT((model_verdict<Dense, Bug::kSkipsBackward>()), HasSubstr("the loss of step"));
}

TEST(BadPrograms, SkippedUpdateIsCaught) {
  EXPECT_THAT((model_verdict<Adam, Bug::kSkips>()), HasSubstr("the loss of step"));
}

TEST(BadPrograms, UnfinishedWorkIsCaught) {
  EXPECT_THAT((model_verdict<Adam, Bug::kUnsynchronised>()), HasSubstr("the loss of step"));
  EXPECT_THAT((model_verdict<Dense, Bug::kUnsynchronised>()), HasSubstr("the loss of step"));
}

TEST(BadPrograms, StaleBatchesAreCaught) {
  EXPECT_THAT((model_verdict<Gather, Bug::kFirstCallOnly>()), HasSubstr("the loss of step"));
}

TEST(BadPrograms, NanIsCaught) {
  EXPECT_THAT((model_verdict<Dropout, Bug::kNan>()), HasSubstr("the loss of step"));
}

// What an op derives from its weights is as good as the last word of the program that they changed.
TEST(BadPrograms, StaleWeightsAreCaught) {
  EXPECT_EQ((model_verdict<Dense, Bug::kKeepsWeights>()), "passed");
  EXPECT_EQ((program_verdict<Dense, Bug::kKeepsWeights>()), "passed");
  EXPECT_THAT((model_verdict<Dense, Bug::kStaleWeights>()), HasSubstr("the loss of step"));
}

// The losses of an evaluation before and one after training.
template <Bug kBug>
std::pair<double, double> evaluations() {
  const ModelSpec spec = mnist_mlp(1, 16);
  const Dataset data = synthetic(spec.sample, spec.classes(), 40, 1);
  HostDevice device(1);
  const auto program =
      make_layerwise_program(bad::spoiled_ops<Dense, kBug>(), device, spec, {.batch = 8});
  program->import_state(initial_state(spec, 1));
  program->load(data.view());
  const double before = program->evaluate(data.view(), 0, 16).loss_sum;
  program->train(test::make_order(40), 0, 5);
  program->wait();
  return {before, program->evaluate(data.view(), 0, 16).loss_sum};
}

TEST(BadPrograms, EvaluationSeesWhatTrainingChanged) {
  EXPECT_EQ(evaluations<Bug::kKeepsWeights>(), evaluations<Bug::kNone>());
  EXPECT_NE(evaluations<Bug::kStaleWeights>(), evaluations<Bug::kNone>());
}

TEST(BadPrograms, AnOpThatCannotBeHadNamesItsLayer) {
  EXPECT_THAT((model_verdict<Dense, Bug::kUnsupported>()),
              testing::StartsWith("dense1: not for 32x784->32 relu"));
}

// Counts how often it is told that its parameters changed.
class ToldOp final : public OpObject {
 public:
  explicit ToldOp(std::unique_ptr<OpObject> inner) : inner_(std::move(inner)) {}
  std::string implementation(Pass) const override { return "told"; }
  void run(Pass pass, std::span<const Tensor> operands) override { inner_->run(pass, operands); }
  void parameters_changed() override { ++told_; }
  int told() const { return told_; }

 private:
  std::unique_ptr<OpObject> inner_;
  int told_ = 0;
};

// Or a row would not pay for what an op derives from its weights, as each step does.
TEST(Cases, TellBeforeEachRun) {
  OpTable ops;
  ops.add<Dense>(
      [](const OpContext& context, const Dense::Problem& p) -> std::unique_ptr<OpObject> {
        const OpTable reference = test::find_backend("reference").ops();
        return std::make_unique<ToldOp>(reference.find<Dense>()->create(context, &p));
      });
  HostDevice device(1);
  const auto problem = make_problem<Dense>({.batch = 2, .in_features = 3, .out_features = 4});
  OpCase op_case(ops, device, problem, Pass::kBackwardData);
  const auto& op = dynamic_cast<const ToldOp&>(op_case.op());
  const int before = op.told();
  for (int i = 0; i < 3; ++i) op_case.run();
  EXPECT_EQ(op.told() - before, 3);
}

// Keeps the operands of its first call for all others.
class RememberingOp final : public OpObject {
 public:
  explicit RememberingOp(std::unique_ptr<OpObject> inner) : inner_(std::move(inner)) {}
  std::string implementation(Pass) const override { return "remembering"; }
  void run(Pass pass, std::span<const Tensor> operands) override {
    if (first_.empty()) first_.assign(operands.begin(), operands.end());
    inner_->run(pass, first_);
  }

 private:
  std::unique_ptr<OpObject> inner_;
  std::vector<Tensor> first_;
};

// Or a row with `cache:cold` would time operands in the caches.
TEST(Cases, CopiesAreReallyUsed) {
  OpTable ops;
  ops.add<Relu>([](const OpContext& context, const Relu::Problem& p) -> std::unique_ptr<OpObject> {
    const OpTable reference = test::find_backend("reference").ops();
    return std::make_unique<RememberingOp>(reference.find<Relu>()->create(context, &p));
  });
  HostDevice device(1);
  const OpTable reference = test::find_backend("reference").ops();
  const auto problem = make_problem<Relu>({.elements = 100});  // 800 B a call.
  OpCase one(ops, device, problem, Pass::kForward);
  EXPECT_EQ(one.copies(), 1);
  EXPECT_EQ(one.check(reference), std::nullopt);
  OpCase many(ops, device, problem, Pass::kForward, {.footprint = 2500});
  EXPECT_EQ(many.copies(), 4);
  EXPECT_THAT(many.check(reference).value_or("passed"), HasSubstr("y[0] is nan"));
}

// A data set is not copied, nor is the place in it.
TEST(Cases, CopiesShareADataSet) {
  const Backend& reference = test::find_backend("reference");
  const auto device = reference.open_device({});
  const auto problem = make_problem<Gather>({.batch = 2, .count = 100, .features = 10});
  OpCase op_case(reference.ops(), *device, problem, Pass::kForward, {.footprint = 1000});
  EXPECT_EQ(op_case.copies(), 10);  // Of 5 B per element taken.
  EXPECT_EQ(op_case.check(reference.ops()), std::nullopt);
}

TEST(Naming, KeepsTheKindOfAnError) {
  const auto named = [](const auto& error) { naming("conv3", [&] { throw error; }); };
  const auto expect = [&]<class Error>(const Error& error) {
    try {
      named(error);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::exception& caught) {
      EXPECT_EQ(typeid(caught), typeid(Error));
      EXPECT_STREQ(caught.what(), "conv3: it failed");
    }
  };
  expect(Unsupported("it failed"));
  expect(OutOfMemory("it failed"));
  expect(std::invalid_argument("it failed"));
  expect(std::runtime_error("it failed"));
  EXPECT_THROW(named(Interrupted()), Interrupted);
  EXPECT_EQ(naming("conv3", [] { return 3; }), 3);
}

TEST(BadPrograms, WrongEvaluationIsCaught) {
  EXPECT_THAT((program_verdict<Dense, Bug::kZeros>()), HasSubstr("evaluates"));
  EXPECT_THAT((program_verdict<Dense, Bug::kNan>()), HasSubstr("evaluates"));
  EXPECT_THAT((program_verdict<Gather, Bug::kFirstCallOnly>()), HasSubstr("evaluates"));
  EXPECT_THAT((program_verdict<SoftmaxCrossEntropy, Bug::kUnsynchronised>()),
              HasSubstr("evaluates"));
}

}  // namespace
}  // namespace trainbench
