// Numbers that went wrong in the field, with values computed independently, on every backend.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <numeric>

#include "kernels/ops/softmax.hpp"
#include "kernels/ops/softmax_cross_entropy.hpp"
#include "program/layerwise_program.hpp"
#include "program/layout_converter.hpp"
#include "tests/test_support.hpp"

namespace trainbench {
namespace {

using ::testing::Each;

// One op of a backend, run on values that a test gives by operand name.
class Laboratory {
 public:
  Laboratory(const Backend& backend, std::shared_ptr<const OpProblem> problem)
      : device_(backend.open_device({.threads = 2})),
        ops_(backend.ops()),
        problem_(std::move(problem)),
        converter_(ops_, *device_),
        op_(create_op(*problem_, ops_, {.device = *device_})) {}

  template <class T>
  void set(const std::string& name, const std::vector<T>& values) {
    std::vector<std::byte>& bytes = host_[name];
    bytes.resize(values.size() * sizeof(T));
    std::memcpy(bytes.data(), values.data(), bytes.size());
  }
  template <class T>
  std::vector<T> get(const std::string& name) const {
    const std::vector<std::byte>& bytes = host_.at(name);
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

  void run(Pass pass) {
    std::map<std::string, Buffer, std::less<>> buffers;
    std::vector<Tensor> tensors;
    const std::vector<Operand> list = problem_->operands(pass);
    for (const Operand& operand : list) {
      const Layout layout = layout_of(*op_.object, operand.name);
      Buffer buffer(*device_, LayoutConverter::bytes(operand, layout));
      const std::vector<std::byte>& values = host_[std::string(operand.name)];
      if (operand.is_read() && values.size() != operand.bytes()) {
        throw std::logic_error("the test gave no values for " + std::string(operand.name));
      }
      if (operand.is_read()) converter_.to_device(operand, layout, values.data(), buffer.data());
      tensors.push_back({buffer.data(), operand.shape, operand.type});
      buffers.emplace(operand.name, std::move(buffer));
    }
    op_.object->run(pass, tensors);
    device_->synchronize();
    for (const Operand& operand : list) {
      if (!operand.is_written()) continue;
      std::vector<std::byte>& values = host_[std::string(operand.name)];
      values.resize(operand.bytes());
      converter_.to_host(operand, layout_of(*op_.object, operand.name),
                         buffers.find(operand.name)->second.data(), values.data());
    }
  }

 private:
  std::unique_ptr<Device> device_;
  OpTable ops_;
  std::shared_ptr<const OpProblem> problem_;
  LayoutConverter converter_;
  OwnedOp op_;
  std::map<std::string, std::vector<std::byte>> host_;
};

std::vector<const Backend*> with_op(const OpProblem& problem) {
  std::vector<const Backend*> backends = test::usable_backends(false);
  std::erase_if(backends,
                [&](const Backend* backend) { return problem.find(backend->ops()) == nullptr; });
  return backends;
}

struct Row {
  std::vector<float> logits;
  std::int32_t label;
  std::vector<float> probabilities;
  double loss;
};

class Loss : public testing::TestWithParam<const Backend*> {
 protected:
  void expect(const Row& row) const {
    const auto classes = static_cast<std::int64_t>(row.logits.size());
    Laboratory lab(*GetParam(),
                   make_problem<SoftmaxCrossEntropy>({.batch = 1, .classes = classes}));
    lab.set("x", row.logits);
    lab.set("labels", std::vector<std::int32_t>{row.label});
    lab.run(Pass::kForward);
    lab.run(Pass::kBackwardData);
    EXPECT_NEAR(lab.get<float>("loss")[0], row.loss, 1e-6 * (1 + row.loss));
    const auto y = lab.get<float>("y"), dx = lab.get<float>("dx");
    for (std::size_t c = 0; c < y.size(); ++c) {
      const float target = static_cast<std::int32_t>(c) == row.label ? 1.0f : 0.0f;
      EXPECT_NEAR(y[c], row.probabilities[c], 1e-6) << "class " << c;
      EXPECT_NEAR(dx[c], row.probabilities[c] - target, 1e-6) << "class " << c;
    }
  }
};

TEST_P(Loss, SubtractsTheMaximum) {
  const std::vector<float> p = {0.09003057f, 0.24472847f, 0.66524096f};
  expect({{1000, 1001, 1002}, 2, p, 0.40760596});
  expect({{1000, 1001, 1002}, 0, p, 2.40760596});
  expect({{-1002, -1001, -1000}, 2, p, 0.40760596});
}

TEST_P(Loss, IsUniformForEqualLogits) {
  for (const float logit : {-1000.0f, 0.0f, 3e38f}) {
    expect({std::vector<float>(10, logit), 3, std::vector<float>(10, 0.1f), std::log(10.0)});
  }
}

TEST_P(Loss, SurvivesAllLogitsFarBelowZero) {
  std::vector<float> logits(10), p(10);
  double sum = 0;
  for (int c = 0; c < 10; ++c) sum += std::exp(-c);
  for (int c = 0; c < 10; ++c) {
    logits[static_cast<std::size_t>(c)] = -300.0f - static_cast<float>(c);
    p[static_cast<std::size_t>(c)] = static_cast<float>(std::exp(-c) / sum);
  }
  expect({logits, 0, p, std::log(sum)});
  expect({logits, 9, p, 9 + std::log(sum)});
}

// A probability that rounds to 0 has a large loss, never an infinite one.
TEST_P(Loss, IsFiniteAtProbabilitiesOfZeroAndOne) {
  expect({{88.8f, -88.8f}, 0, {1, 0}, 0});
  expect({{88.8f, -88.8f}, 1, {1, 0}, 177.6});
  expect({{1000, 0}, 1, {1, 0}, 1000});
}

INSTANTIATE_TEST_SUITE_P(Backends, Loss,
                         testing::ValuesIn(with_op(*make_problem<SoftmaxCrossEntropy>({}))),
                         [](const auto& tested) { return std::string(tested.param->name()); });

// Several rows of the op without the loss, and its gradient.
class Probabilities : public testing::TestWithParam<const Backend*> {
 protected:
  // `logits` and the `probabilities` expected of them are rows of `classes`.
  void expect(std::int64_t classes, const std::vector<float>& logits,
              const std::vector<float>& probabilities) const {
    const std::int64_t rows = std::ssize(logits) / classes;
    Laboratory lab(*GetParam(), make_problem<Softmax>({.batch = rows, .classes = classes}));
    std::vector<float> dy(logits.size());
    for (std::size_t i = 0; i < dy.size(); ++i) dy[i] = static_cast<float>(i % 7) - 2;
    lab.set("x", logits);
    lab.set("dy", dy);
    lab.run(Pass::kForward);
    lab.run(Pass::kBackwardData);
    const auto y = lab.get<float>("y"), dx = lab.get<float>("dx");
    for (std::int64_t first = 0; first < std::ssize(y); first += classes) {
      const auto begin = static_cast<std::size_t>(first);
      const auto end = begin + static_cast<std::size_t>(classes);
      double sum = 0, mean = 0;
      for (std::size_t i = begin; i < end; ++i) sum += y[i];
      for (std::size_t i = begin; i < end; ++i) mean += double{probabilities[i]} * dy[i];
      EXPECT_NEAR(sum, 1, 1e-6) << "row " << first / classes;
      for (std::size_t i = begin; i < end; ++i) {
        EXPECT_NEAR(y[i], probabilities[i], 1e-6) << "element " << i;
        EXPECT_NEAR(dx[i], probabilities[i] * (dy[i] - mean), 1e-5) << "element " << i;
      }
    }
  }
};

TEST_P(Probabilities, AreFiniteForLogitsFarApart) {
  expect(3, {1e4f, 0, -1e4f, -2e4f, -1e4f, -1e4f, 3e38f, -3e38f, 0},
         {1, 0, 0, 0, 0.5f, 0.5f, 1, 0, 0});
  std::vector<float> logits, probabilities;  // Two rows wider than any vector.
  for (int i = 0; i < 2 * 100; ++i) {
    logits.push_back(i % 4 == 1 ? 1e4f : 0);
    probabilities.push_back(i % 4 == 1 ? 0.04f : 0);
  }
  expect(100, logits, probabilities);
}

TEST_P(Probabilities, DoNotDependOnTheOrigin) {
  const std::vector<float> p = {0.09003057f, 0.24472847f, 0.66524096f};
  for (const float origin : {-1e4f, 0.0f, 1e4f}) expect(3, {origin, origin + 1, origin + 2}, p);
}

INSTANTIATE_TEST_SUITE_P(Backends, Probabilities,
                         testing::ValuesIn(with_op(*make_problem<Softmax>({}))),
                         [](const auto& tested) { return std::string(tested.param->name()); });

class Dropouts : public testing::TestWithParam<const Backend*> {
 protected:
  // What a million ones become on the way forward, and as dy on the way back, in the step that
  // follows `updates` updates.
  struct Masked {
    std::vector<float> y, dx;
  };
  Masked ones(double rate, std::uint32_t updates, std::uint32_t seed = 3) const {
    constexpr std::int64_t kCount = 1'000'000;
    Laboratory lab(*GetParam(),
                   make_problem<Dropout>({.elements = kCount, .rate = rate, .seed = seed}));
    lab.set("x", std::vector<float>(kCount, 1.0f));
    lab.set("dy", std::vector<float>(kCount, 1.0f));
    lab.set("step", std::vector<std::uint32_t>{updates});
    lab.run(Pass::kForward);
    lab.run(Pass::kBackwardData);
    return {lab.get<float>("y"), lab.get<float>("dx")};
  }
};

TEST_P(Dropouts, DropAFifthAndScaleTheRest) {
  const std::vector<float> y = ones(0.2, 0).y;
  const auto zeros = std::ranges::count(y, 0.0f);
  EXPECT_EQ(std::ranges::count(y, 1.25f), std::ssize(y) - zeros);
  EXPECT_NEAR(static_cast<double>(zeros) / 1e6, 0.2, 0.002);
  EXPECT_NEAR(std::accumulate(y.begin(), y.end(), 0.0) / 1e6, 1, 0.002);
}

TEST_P(Dropouts, UseTheSameMaskOnTheWayBack) {
  const Masked both = ones(0.2, 4);
  EXPECT_TRUE(both.y == both.dx);
}

TEST_P(Dropouts, DifferBetweenStepsAndSeedsAndRepeat) {
  const std::vector<float> y = ones(0.2, 4).y;
  EXPECT_TRUE(y == ones(0.2, 4).y);
  EXPECT_FALSE(y == ones(0.2, 5).y);
  EXPECT_FALSE(y == ones(0.2, 4, 4).y);
}

TEST_P(Dropouts, TakeTheRatesZeroAndOne) {
  const Masked all = ones(0, 0), none = ones(1, 0);
  EXPECT_THAT(all.y, Each(1.0f));
  EXPECT_THAT(all.dx, Each(1.0f));
  EXPECT_THAT(none.y, Each(0.0f));
  EXPECT_THAT(none.dx, Each(0.0f));
}

INSTANTIATE_TEST_SUITE_P(Backends, Dropouts, testing::ValuesIn(with_op(*make_problem<Dropout>({}))),
                         [](const auto& tested) { return std::string(tested.param->name()); });

// Hundreds of epochs on few samples drive probabilities to 1; the loss must stay a number.
class Overfitting : public testing::TestWithParam<const Backend*> {};

TEST_P(Overfitting, KeepsTheLossFinite) {
  constexpr std::int64_t kSamples = 100, kBatch = 32, kSteps = 4, kEpochs = 200;
  for (const double rate : {1e-3, 1e-2}) {
    ModelSpec spec = mnist_mlp(1, 32);
    spec.sample = {8, 8, 1};
    spec.adam.learning_rate = rate;
    const Dataset data = synthetic(spec.sample, spec.classes(), kSamples, 1);
    const auto device = GetParam()->open_device({.threads = 1});
    const auto program = make_program(*GetParam(), *device, spec, {.batch = kBatch});
    program->import_state(initial_state(spec, 1));
    program->load(data.view());
    for (std::uint32_t epoch = 0; epoch < kEpochs; ++epoch) {
      const auto order = test::make_order(kSamples, epoch);
      program->train(order, 0, kSteps);
      for (const StepMetrics& step : program->wait()) {
        ASSERT_TRUE(std::isfinite(step.loss_sum)) << "epoch " << epoch << ", rate " << rate;
        ASSERT_GE(step.loss_sum, 0);
      }
    }
    const Evaluation after = program->evaluate(data.view(), 0, kSamples);
    EXPECT_EQ(after.correct, kSamples) << "rate " << rate;
    EXPECT_GE(after.loss_sum, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Overfitting,
                         testing::ValuesIn(test::training_backends(mnist_mlp(), true)),
                         [](const auto& tested) { return std::string(tested.param->name()); });

}  // namespace
}  // namespace trainbench
