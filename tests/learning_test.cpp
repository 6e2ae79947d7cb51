// Training on real pictures reaches the accuracy that the same recipe reaches elsewhere (PyTorch, 4
// seeds, 2 epochs of the MLP of depth 1 and width 128: 85.3 to 86.3 % on Fashion-MNIST, 96.7 to
// 97.0 % on MNIST).

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "harness/train/trainer.hpp"
#include "tests/test_support.hpp"

namespace trainbench {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

TrainingResult train(const Backend& backend, const ModelSpec& spec, const TrainTest& data,
                     std::int64_t epochs, std::uint32_t seed = 1,
                     Precision precision = Precision::kFp32) {
  const auto device = backend.open_device({.threads = default_threads()});
  TrainingResult result;
  train_model(backend, *device, spec, data,
              {.epochs = epochs, .batch = 32, .validate = 0, .seed = seed, .precision = precision},
              {}, result);
  return result;
}

// The first pictures only, for tests of seconds.
Dataset first(const Dataset& data, std::int64_t count) {
  Dataset part = data;
  part.images.resize(static_cast<std::size_t>(count * data.sample.elements()));
  part.labels.resize(static_cast<std::size_t>(count));
  return part;
}

class Learning : public testing::TestWithParam<const Backend*> {
 protected:
  // Fails where the pictures are missing, unless somebody said that this is known.
  void SetUp() override {
    if (holds_idx(kSystemFashionMnist)) return;
    const std::string missing = std::string("no Fashion-MNIST in ") + kSystemFashionMnist +
                                "; install it (Debian: dataset-fashion-mnist)";
    if (!environment("TRAINBENCH_TEST_WITHOUT_DATA").empty()) GTEST_SKIP() << missing;
    FAIL() << missing << ", or set TRAINBENCH_TEST_WITHOUT_DATA=1 to skip this test";
  }
  static TrainTest fashion_mnist() { return load_idx(kSystemFashionMnist, "fashion_mnist"); }
  // 6,000 pictures to train on and 1,000 to test on.
  static TrainTest part() {
    const TrainTest all = fashion_mnist();
    return {first(all.train, 6000), first(all.test, 1000), {}};
  }
};

TEST_P(Learning, FashionMnist) {
  for (const Precision precision : test::usable_precisions(*GetParam())) {
    SCOPED_TRACE(to_string(precision));
    const TrainingResult result =
        train(*GetParam(), mnist_mlp(1, 128), fashion_mnist(), 2, 1, precision);
    EXPECT_GE(result.test.accuracy, 0.84);
    EXPECT_LE(result.test.accuracy, 0.90);
    EXPECT_LT(result.epochs[1].training.loss, result.epochs[0].training.loss);
    EXPECT_FALSE(result.epochs[0].not_learning);
  }
}

TEST_P(Learning, LearnsWithEverySeed) {
  const TrainTest data = part();
  for (const std::uint32_t seed : {1u, 2u, 3u, 4u, 5u}) {
    const TrainingResult result = train(*GetParam(), mnist_mlp(1, 32), data, 1, seed);
    EXPECT_GT(result.test.accuracy, 0.6) << "seed " << seed;
    EXPECT_FALSE(result.epochs[0].not_learning);
  }
}

TEST_P(Learning, SaysWhenNothingIsLearned) {
  ModelSpec frozen = mnist_mlp(1, 32);
  frozen.adam.learning_rate = 0;
  // Black pictures and biases of zero make all logits zero: a guess among ten, ln 10.
  TrainTest black = part();
  std::ranges::fill(black.train.images, std::uint8_t{0});
  const TrainingResult result = train(*GetParam(), frozen, black, 1);
  EXPECT_TRUE(result.epochs[0].not_learning);
}

TEST_P(Learning, StopsWhenTheLossIsNoNumber) {
  ModelSpec wild = mnist_mlp(1, 32);
  wild.adam.learning_rate = 1e38;
  EXPECT_THROW(train(*GetParam(), wild, part(), 1), std::runtime_error);
}

TEST_P(Learning, Mnist) {
  const std::string folder = environment("TRAINBENCH_DATA_DIR");
  if (folder.empty()) GTEST_SKIP() << "TRAINBENCH_DATA_DIR is not set: no MNIST to learn";
  const TrainTest data = load_for_model(mnist_mlp(), folder);
  if (data.train.name != "mnist") GTEST_SKIP() << folder << " holds no MNIST";
  EXPECT_GE(train(*GetParam(), mnist_mlp(1, 128), data, 2).test.accuracy, 0.96);
}

INSTANTIATE_TEST_SUITE_P(Backends, Learning,
                         testing::ValuesIn(test::training_backends(mnist_mlp(), true)),
                         [](const auto& tested) { return std::string(tested.param->name()); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Learning);

}  // namespace
}  // namespace trainbench
