// The reference's gradients against central differences of its own forward pass, in double. With
// r random and L = sum_j r_j y_j, the backward passes get dy = r and must return dL/dx.

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "harness/check/op_case.hpp"
#include "harness/check/op_suite.hpp"
#include "kernels/core/element_oracle.hpp"
#include "kernels/core/host_device.hpp"
#include "kernels/ops/softmax_cross_entropy.hpp"
#include "program/layerwise_program.hpp"
#include "tests/test_support.hpp"

namespace trainbench {
namespace {

// Fills are multiples of 2^-23 in [-1, 1), so x +- step is exact; kinks within a step are unlikely.
constexpr float kStep = 0x1p-20f;
constexpr std::int64_t kSampled = 40;  // Elements of each gradient.

// Values of operands by name, all float or 32-bit integers.
using Values = std::map<std::string, std::vector<float>, std::less<>>;

class Differences {
 public:
  explicit Differences(std::shared_ptr<const OpProblem> problem)
      : problem_(std::move(problem)),
        op_(problem_->create(test::find_backend("reference").ops(), {.device = device_})),
        oracle_(dynamic_cast<const ElementOracle&>(*op_)) {
    for (const Operand& operand : problem_->operands(Pass::kForward)) add(operand);
    for (const Pass pass : problem_->passes()) {
      for (const Operand& operand : problem_->operands(pass)) add(operand);
    }
  }

  // Makes what backward passes read of the forward pass's results.
  void run_forward() {
    auto tensors = bind(Pass::kForward);
    op_->run(Pass::kForward, tensors);
  }

  // dL/d of one element, by differences of the output `loss`, weighted by `weights` where given.
  double difference(const std::string& operand, std::int64_t index, std::string_view loss,
                    const std::vector<float>* weights) {
    float& value = values_.at(operand)[static_cast<std::size_t>(index)];
    const float middle = value;
    value = middle + kStep;
    const double above = loss_of(loss, weights);
    value = middle - kStep;
    const double below = loss_of(loss, weights);
    value = middle;
    return (above - below) / (2 * double{kStep});
  }

  double gradient(Pass pass, std::string_view operand, std::int64_t index) {
    const std::vector<Operand> list = problem_->operands(pass);
    const auto tensors = bind(pass);
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (list[i].name == operand) return oracle_.element(pass, tensors, i, index);
    }
    throw std::logic_error("no such gradient");
  }

  const OpProblem& problem() const { return *problem_; }
  const std::vector<float>& values(const std::string& name) const { return values_.at(name); }

 private:
  void add(const Operand& operand) {
    if (values_.contains(operand.name)) return;
    std::vector<float> values(static_cast<std::size_t>(operand.elements()));
    fill_operand(operand, FillMode::kUniform, values_.size() + 1, values.data());
    values_.emplace(operand.name, std::move(values));
  }
  std::vector<Tensor> bind(Pass pass) {
    std::vector<Tensor> tensors;
    for (const Operand& operand : problem_->operands(pass)) {
      tensors.push_back({values_.find(operand.name)->second.data(), operand.shape, operand.type});
    }
    return tensors;
  }
  double loss_of(std::string_view output, const std::vector<float>* weights) {
    const std::vector<Operand> list = problem_->operands(Pass::kForward);
    const auto tensors = bind(Pass::kForward);
    double sum = 0;
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (list[i].name != output) continue;
      for (std::int64_t j = 0; j < list[i].elements(); ++j) {
        const double weight = weights == nullptr ? 1 : (*weights)[static_cast<std::size_t>(j)];
        sum += weight * oracle_.element(Pass::kForward, tensors, i, j);
      }
    }
    return sum;
  }

  std::shared_ptr<const OpProblem> problem_;
  HostDevice device_{1};
  std::unique_ptr<OpObject> op_;
  const ElementOracle& oracle_;
  Values values_;
};

// Gradients that a pass makes, checked at up to kSampled places each. Returns how many there were.
int check_pass(Differences& differences, Pass pass) {
  int checked = 0;
  for (const Operand& operand : differences.problem().operands(pass)) {
    if (!operand.is_written()) continue;
    const std::string of(operand.name.substr(1));
    const std::int64_t stride = std::max<std::int64_t>(operand.elements() / kSampled, 1);
    for (std::int64_t i = 0; i < operand.elements(); i += stride) {
      const double want = differences.difference(of, i, "y", &differences.values("dy"));
      EXPECT_NEAR(differences.gradient(pass, operand.name, i), want, 1e-6 * (1 + std::abs(want)))
          << differences.problem().op() << " " << differences.problem().describe() << " "
          << operand.name << "[" << i << "]";
      ++checked;
    }
  }
  return checked;
}

class Gradients : public testing::TestWithParam<std::string> {};

TEST_P(Gradients, AreThoseOfDifferences) {
  int checked = 0;
  for (const OpSuite& suite : make_op_suites()) {
    if (suite.op != GetParam()) continue;
    for (const auto& problem : suite.checks) {
      if (problem->operands(Pass::kForward).front().elements() > 5000) continue;  // Slow.
      Differences differences(problem);
      differences.run_forward();
      for (const Pass pass : problem->passes()) {
        if (pass != Pass::kForward) checked += check_pass(differences, pass);
      }
    }
  }
  EXPECT_GT(checked, 50);
}

// Every op that gives gradients from dy; the loss is below.
std::vector<std::string> differentiable() {
  std::vector<std::string> ops;
  for (const OpSuite& suite : make_op_suites()) {
    const auto passes = suite.checks.front()->passes();
    const bool backward = std::ranges::count(passes, Pass::kBackwardData) > 0;
    if (backward && suite.op != SoftmaxCrossEntropy::kName) ops.push_back(suite.op);
  }
  return ops;
}

INSTANTIATE_TEST_SUITE_P(Ops, Gradients, testing::ValuesIn(differentiable()),
                         [](const auto& tested) { return tested.param; });

TEST(SoftmaxCrossEntropyGradients, AreThoseOfDifferences) {
  for (const auto& [batch, classes] :
       {std::pair<std::int64_t, std::int64_t>{1, 2}, {7, 3}, {5, 10}}) {
    Differences differences(
        make_problem<SoftmaxCrossEntropy>({.batch = batch, .classes = classes}));
    differences.run_forward();
    for (std::int64_t i = 0; i < batch * classes; ++i) {
      const double want =
          differences.difference("x", i, "loss", nullptr) / static_cast<double>(batch);
      EXPECT_NEAR(differences.gradient(Pass::kBackwardData, "dx", i), want, 2e-7) << i;
    }
  }
}

// The whole backward pass at once: the first step's moments against differences of the evaluated
// loss, which is a float here, so that steps are larger and tolerances wider.
TEST(ModelGradients, AreThoseOfDifferences) {
  constexpr std::int64_t kBatch = 5;
  constexpr float kModelStep = 0x1p-10f;
  ModelSpec spec = test::tiny_cnn();
  std::erase_if(spec.layers, [](const LayerSpec& layer) { return layer.type == "Dropout"; });
  const Dataset data = synthetic(spec.sample, spec.classes(), kBatch, 1);
  const Backend& reference = test::find_backend("reference");
  const auto device = reference.open_device({});
  const auto program = make_program(reference, *device, spec, {.batch = kBatch});
  const ModelState state = initial_state(spec, 2);
  program->import_state(state);
  program->load(data.view());
  program->train(test::make_order(kBatch), 0, 1);
  program->wait();
  const std::vector<float> moments = program->export_state().first_moments;
  const auto loss_at = [&](std::size_t parameter, float change) {
    ModelState changed = state;
    changed.parameters[parameter] += change;
    program->import_state(changed);
    return program->evaluate(data.view(), 0, kBatch).loss_sum / kBatch;
  };
  double largest = 0;
  for (const float moment : moments) largest = std::max(largest, std::abs(moment / 0.1));
  ASSERT_GT(largest, 0.01);
  for (std::size_t i = 0; i < moments.size(); i += 3) {
    const double want = (loss_at(i, kModelStep) - loss_at(i, -kModelStep)) / (2 * kModelStep);
    EXPECT_NEAR(moments[i] / (1 - spec.adam.beta1), want, 5e-3 * largest) << "parameter " << i;
  }
}

}  // namespace
}  // namespace trainbench
