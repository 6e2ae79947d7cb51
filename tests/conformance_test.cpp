// Every backend computes every pass of every op that it has as the definition says, at every odd
// problem of the op suites and at the shapes of small models.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "harness/check/op_case.hpp"
#include "harness/check/op_suite.hpp"
#include "harness/check/row_checks.hpp"
#include "tests/test_support.hpp"

namespace trainbench {
namespace {

struct Case {
  const Backend* backend = nullptr;
  Precision precision = Precision::kFp32;
  std::shared_ptr<const OpProblem> problem;
  Pass pass = Pass::kForward;

  std::string name() const {
    return test::test_name(std::string(backend->name()) + " " + std::string(problem->op()) + " " +
                           std::string(to_string(pass)) + " " + std::string(to_string(precision)) +
                           " " + problem->describe());
  }
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name(); }

// The odd problems of all suites, and the ops of small models at batch 1 and at a ragged batch.
std::vector<std::shared_ptr<const OpProblem>> all_problems() {
  std::vector<std::shared_ptr<const OpProblem>> problems;
  for (const OpSuite& suite : make_op_suites()) {
    problems.insert(problems.end(), suite.checks.begin(), suite.checks.end());
  }
  for (const std::int64_t batch : {1, 5}) {
    for (const ModelSpec& spec : {cifar10_cnn(4), mnist_mlp(2, 33), test::tiny_cnn()}) {
      for (const StepOp& op : step_ops(spec, batch)) problems.push_back(op.problem);
    }
  }
  return problems;
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  std::set<std::string> names;  // Models share shapes.
  for (const Backend* backend : test::usable_backends(false)) {
    for (const auto& problem : all_problems()) {
      const OpTable ops = backend->ops();
      const OpTable::Entry* entry = problem->find(ops);
      if (entry == nullptr) continue;
      for (const Precision precision : test::usable_precisions(*backend)) {
        if (!entry->own_in(precision)) continue;  // What is borrowed is tested with its owner.
        for (const Pass pass : problem->passes()) {
          const Case c{backend, precision, problem, pass};
          if (names.insert(c.name()).second) cases.push_back(c);
        }
      }
    }
  }
  return cases;
}

class Conformance : public testing::TestWithParam<Case> {};

// More threads than rows, than CPUs, and one. A device that is not the host's has no threads.
std::vector<int> thread_counts(const Backend& backend) {
  return backend.on_host() ? std::vector<int>{1, 2, 3} : std::vector<int>{1};
}

TEST_P(Conformance, IsAsDefined) {
  const Case& c = GetParam();
  for (const int threads : thread_counts(*c.backend)) {
    const auto device = c.backend->open_device({.threads = threads});
    for (const FillMode mode : {FillMode::kUniform, FillMode::kInteger}) {
      if (mode == FillMode::kInteger && !c.problem->exact_on_integers()) continue;
      OpCase op_case(c.backend->ops(), *device, c.problem, c.pass,
                     {.precision = c.precision, .mode = mode});
      const auto wrong = op_case.check(test::find_backend("reference").ops());
      EXPECT_FALSE(wrong.has_value()) << "with " << threads << " threads: " << *wrong;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Conformance, testing::ValuesIn(all_cases()),
                         [](const auto& tested) { return tested.param.name(); });

// As in rows with `cache:cold`: the two calls that are checked take one copy of the operands each.
TEST(ColdOperands, AreComputedAsDefined) {
  std::size_t most_copies = 0;
  for (const Case& c : all_cases()) {
    const auto device = c.backend->open_device({.threads = 2});
    OpCase op_case(c.backend->ops(), *device, c.problem, c.pass,
                   {.precision = c.precision, .footprint = 1e4});
    const auto wrong = op_case.check(test::find_backend("reference").ops());
    EXPECT_FALSE(wrong.has_value()) << op_case.copies() << " copies: " << *wrong;
    EXPECT_GE(op_case.working_set(), 1e4) << c.name();
    most_copies = std::max(most_copies, op_case.copies());
  }
  EXPECT_GT(most_copies, 10);
}

// As a user's own images would come: the backend's reorders run around the op.
TEST(PlainImages, AreComputedAsDefined) {
  std::map<std::string, int> reordered;
  for (const Case& c : all_cases()) {
    if (!c.backend->own_layouts()) continue;
    const std::vector<Operand> operands = c.problem->operands(Pass::kForward);
    if (operands.front().shape.rank() != 4 || c.problem->op() == "reorder") continue;
    const auto device = c.backend->open_device({.threads = 2});
    OpCase op_case(c.backend->ops(), *device, c.problem, c.pass,
                   {.precision = c.precision, .plain = true});
    const auto wrong = op_case.check(test::find_backend("reference").ops());
    EXPECT_FALSE(wrong.has_value()) << *wrong;
    for (const Operand& operand : c.problem->operands(c.pass)) {
      const bool image = operand.shape.rank() == 4 && operand.name != "w" && operand.name != "dw";
      EXPECT_TRUE(!image || layout_of(op_case.op(), operand.name).canonical()) << c.name();
    }
    const bool is_reordered =
        op_case.op().implementation(c.pass).find("+reorder(") != std::string::npos;
    reordered[std::string(c.backend->name())] += is_reordered ? 1 : 0;
  }
  EXPECT_GT(reordered["template_backend"], 0);
}

// Uploads canonical values in the op's own form of each operand, and expects them back unchanged.
// Returns how many operands have such a form.
int round_trips(const Case& c) {
  const auto device = c.backend->open_device({.threads = 1});
  const OpTable ops = c.backend->ops();
  const OwnedOp op = create_op(*c.problem, ops, {.device = *device, .precision = c.precision});
  const LayoutConverter converter(ops, *device);
  int opaque = 0;
  for (const Operand& operand : c.problem->operands(c.pass)) {
    const Layout layout = layout_of(*op.object, operand.name);
    if (layout.canonical()) continue;
    ++opaque;
    std::vector<float> values(static_cast<std::size_t>(operand.elements())), back(values.size());
    fill_operand({"x", operand.shape, Role::kInput}, FillMode::kUniform, 3, values.data());
    const Buffer memory(*device, LayoutConverter::bytes(operand, layout));
    converter.to_device(operand, layout, values.data(), memory.data());
    converter.to_host(operand, layout, memory.data(), back.data());
    const double tolerance = 2 * input_epsilon(c.precision);
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(values[i], back[i], tolerance)
          << c.name() << ": " << operand.name << " as " << layout.name << " at " << i;
    }
  }
  return opaque;
}

TEST(Layouts, KeepEveryValue) {
  std::map<std::string, int> opaque;
  for (const Case& c : all_cases()) opaque[std::string(c.backend->name())] += round_trips(c);
  EXPECT_GT(opaque["template_backend"], 0);
  EXPECT_EQ(opaque["reference"], 0);
}

// The truth has everything; otherwise an op could be missing everywhere and nobody would notice.
TEST(Support, ReferenceHasEveryOp) {
  for (const OpSuite& suite : make_op_suites()) {
    ASSERT_FALSE(suite.checks.empty()) << suite.op;
    EXPECT_NE(suite.checks.front()->find(test::find_backend("reference").ops()), nullptr)
        << suite.op;
  }
}

TEST(Support, EveryOpOfEveryBackendHasASuite) {
  std::set<std::string> suites;
  for (const OpSuite& suite : make_op_suites()) suites.insert(suite.op);
  for (const auto& backend : test::all_backends()) {
    for (const std::string& op : backend->ops().own_ops()) {
      EXPECT_TRUE(suites.contains(op)) << backend->name() << " has " << op;
    }
  }
}

TEST(Support, EveryBackendWithOpsHasCases) {
  std::map<std::string, int> cases;
  for (const Case& c : all_cases()) ++cases[std::string(c.backend->name())];
  for (const Backend* backend : test::usable_backends(false)) {
    const bool has_ops = !backend->ops().own_ops().empty();
    EXPECT_EQ(cases[std::string(backend->name())] > 0, has_ops) << backend->name();
  }
}

}  // namespace
}  // namespace trainbench
