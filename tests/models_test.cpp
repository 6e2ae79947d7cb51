#include "data/models.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include "kernels/ops/dropout.hpp"

namespace trainbench {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> layer_names(const ModelSpec& spec) {
  std::vector<std::string> names;
  for (const LayerSpec& layer : spec.layers) names.push_back(layer.name);
  return names;
}

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}

TEST(Cifar10Cnn, HasThePublishedParameterCount) {
  EXPECT_EQ(cifar10_cnn().parameters(), 1'337'002);
  EXPECT_EQ(cifar10_cnn().sample, (Shape{32, 32, 3}));
  EXPECT_EQ(cifar10_cnn().classes(), 10);
}

TEST(Cifar10Cnn, HasThePublishedLayers) {
  EXPECT_THAT(layer_names(cifar10_cnn()),
              ElementsAre("conv1", "conv2", "pool1", "conv3", "conv4", "pool2", "conv5", "conv6",
                          "flatten", "dropout1", "dense1", "dense2"));
  EXPECT_THAT(cifar10_cnn(4).activations(),
              ElementsAre(Shape{32, 32, 3}, Shape{32, 32, 4}, Shape{32, 32, 4}, Shape{16, 16, 4},
                          Shape{16, 16, 8}, Shape{16, 16, 8}, Shape{8, 8, 8}, Shape{8, 8, 16},
                          Shape{8, 8, 16}, Shape{1024}, Shape{1024}, Shape{128}, Shape{10}));
}

TEST(MnistMlp, HasThePublishedParameterCounts) {
  EXPECT_EQ(mnist_mlp(1, 128).parameters(), 784 * 128 + 128 + 128 * 10 + 10);
  EXPECT_EQ(mnist_mlp(2, 1000).parameters(),
            784 * 1000 + 1000 + 1000 * 1000 + 1000 + 1000 * 10 + 10);
}

TEST(MnistMlp, NumbersItsLayersAndDropoutMasks) {
  const ModelSpec spec = mnist_mlp(3, 8);
  EXPECT_THAT(layer_names(spec), ElementsAre("flatten", "dense1", "dropout1", "dense2", "dropout2",
                                             "dense3", "dropout3", "dense4"));
  std::vector<std::uint32_t> masks;
  for (const LayerSpec& layer : spec.layers) {
    if (const auto* config = layer.config_as<Dropout::Config>()) {
      masks.push_back(config->layer);
      EXPECT_EQ(config->rate, 0.2);
    }
  }
  EXPECT_THAT(masks, ElementsAre(0, 1, 2));
}

TEST(Models, RejectsSizesThatMakeNoSense) {
  EXPECT_EQ(error_of([] { cifar10_cnn(0); }), "cifar10_cnn needs a width from 1 to 65536, not 0");
  EXPECT_THROW(cifar10_cnn(65537), std::invalid_argument);
  EXPECT_THROW(mnist_mlp(0, 128), std::invalid_argument);
  EXPECT_THROW(mnist_mlp(1, -5), std::invalid_argument);
  EXPECT_EQ(error_of([] { mnist_mlp(1001, 1); }),
            "mnist_mlp needs a depth from 1 to 1000, not 1001");
  EXPECT_EQ(error_of([] { check_batch(0); }), "a batch has from 1 to 1048576 samples, not 0");
  EXPECT_THROW(check_batch(-1), std::invalid_argument);
  EXPECT_NO_THROW(check_batch(1));
}

TEST(ModelTable, FindsModelsByName) {
  for (const ModelEntry& entry : models()) {
    EXPECT_EQ(&find_model(entry.name), &entry);
    EXPECT_EQ(entry.spec().name, entry.name);
    EXPECT_NO_THROW(check_batch(entry.default_batch));
  }
  EXPECT_THAT(error_of([] { find_model("resnet"); }), HasSubstr("cifar10_cnn, mnist_mlp"));
}

TEST(ModelTable, AppliesChangedAxesToTheDefaults) {
  const ModelEntry& mlp = find_model("mnist_mlp");
  EXPECT_THAT(mlp.axes(), ElementsAre(ModelAxis{"depth", 1}, ModelAxis{"width", 128}));
  EXPECT_THAT(mlp.axes({{"width", 16}}),
              ElementsAre(ModelAxis{"depth", 1}, ModelAxis{"width", 16}));
  EXPECT_EQ(mlp.spec({{"width", 1000}, {"depth", 2}}).parameters(),
            mnist_mlp(2, 1000).parameters());
  EXPECT_EQ(error_of([] {
              find_model("cifar10_cnn").axes({{"depth", 2}});
            }),
            "cifar10_cnn has no depth");
}

TEST(ModelTable, VariantsShareTheirAxes) {
  for (const ModelEntry& entry : models()) {
    for (const ModelAxes& variant : entry.variants) {
      EXPECT_EQ(entry.axes(variant), variant) << entry.name;
      EXPECT_GT(entry.build(variant).parameters(), 0);
    }
  }
}

// The weights of the first layer that has any.
std::span<const float> first_weights(const ModelState& state, std::int64_t count) {
  return std::span(state.parameters).first(static_cast<std::size_t>(count));
}

// Checks bounds, mean and variance of at least 1e5 draws against the uniform distribution.
void expect_glorot(std::span<const float> weights, double limit) {
  double sum = 0, squares = 0, largest = 0;
  for (const float w : weights) {
    sum += w;
    squares += static_cast<double>(w) * w;
    largest = std::max(largest, static_cast<double>(std::abs(w)));
  }
  const auto count = static_cast<double>(weights.size());
  EXPECT_LE(largest, limit);
  EXPECT_GT(largest, 0.99 * limit);
  EXPECT_NEAR(sum / count, 0, 0.01 * limit);
  EXPECT_NEAR(squares / count, limit * limit / 3, 0.02 * limit * limit / 3);
}

TEST(InitialState, DrawsDenseWeightsWithinGlorotsLimit) {
  expect_glorot(first_weights(initial_state(mnist_mlp(1, 512), 3), 784 * 512), 0.068042);
}

TEST(InitialState, CountsTheKernelsAreaInTheFans) {
  // 864 weights a seed: 3x3x3 into 32 channels.
  std::vector<float> draws;
  for (std::uint32_t seed = 0; seed < 120; ++seed) {
    const ModelState state = initial_state(cifar10_cnn(32), seed);
    const auto weights = first_weights(state, 864);
    draws.insert(draws.end(), weights.begin(), weights.end());
  }
  expect_glorot(draws, 0.138014);
}

TEST(InitialState, ZeroesBiasesAndMoments) {
  const ModelState state = initial_state(cifar10_cnn(4), 7);
  ASSERT_EQ(state.parameters.size(), static_cast<std::size_t>(cifar10_cnn(4).parameters()));
  EXPECT_THAT(std::span(state.parameters).subspan(3 * 3 * 3 * 4, 4), Each(0.0f));
  EXPECT_THAT(std::span(state.parameters).last(10), Each(0.0f));
  EXPECT_EQ(std::ranges::count(first_weights(state, 3 * 3 * 3 * 4), 0.0f), 0);
  EXPECT_THAT(state.first_moments, Each(0.0f));
  EXPECT_THAT(state.second_moments, Each(0.0f));
  EXPECT_EQ(state.first_moments.size(), state.parameters.size());
  EXPECT_EQ(state.second_moments.size(), state.parameters.size());
  EXPECT_EQ(state.step, 0u);
}

TEST(InitialState, DependsOnTheSeedAlone) {
  const ModelSpec spec = mnist_mlp(1, 16);
  EXPECT_EQ(initial_state(spec, 1).parameters, initial_state(spec, 1).parameters);
  EXPECT_NE(initial_state(spec, 1).parameters, initial_state(spec, 2).parameters);
}

// Results differ between machines when these do.
TEST(InitialState, HasTheSameBitsEverywhere) {
  const ModelState cnn = initial_state(cifar10_cnn(), 1);
  EXPECT_THAT(std::span(cnn.parameters).first(4),
              ElementsAre(-0.0856602937f, 0.0565607734f, -0.0562617667f, -0.123712033f));
  const auto last = cnn.parameters.size() - 11;  // Before the ten biases.
  EXPECT_EQ(cnn.parameters[last], 0.00446923776f);
  EXPECT_EQ(initial_state(mnist_mlp(), 1).parameters[0], -0.0503428057f);
}

std::vector<std::uint32_t> order_of(std::int64_t count, std::uint32_t seed, std::uint32_t epoch) {
  std::vector<std::uint32_t> order;
  epoch_order(count, seed, epoch, order);
  return order;
}

TEST(EpochOrder, VisitsEverySampleOnce) {
  for (const std::int64_t count : {0, 1, 2, 3, 10, 1000, 60000}) {
    std::vector<std::uint32_t> order = order_of(count, 5, 0);
    ASSERT_EQ(order.size(), static_cast<std::size_t>(count));
    std::ranges::sort(order);
    for (std::size_t i = 0; i < order.size(); ++i) ASSERT_EQ(order[i], i);
  }
  EXPECT_THROW(order_of(-1, 0, 0), std::invalid_argument);
  EXPECT_THROW(order_of(std::int64_t{1} << 32, 0, 0), std::invalid_argument);
}

TEST(EpochOrder, DiffersBetweenEpochsAndSeeds) {
  const auto first = order_of(1000, 1, 0);
  EXPECT_EQ(first, order_of(1000, 1, 0));
  EXPECT_NE(first, order_of(1000, 1, 1));
  EXPECT_NE(first, order_of(1000, 2, 0));
  // Expected: one sample keeps its place, give or take one.
  const auto second = order_of(1000, 1, 1);
  int kept = 0;
  for (std::size_t i = 0; i < first.size(); ++i) kept += first[i] == second[i];
  EXPECT_LE(kept, 8);
}

TEST(EpochOrder, GivesEveryPermutationTheSameOdds) {
  constexpr int kDraws = 24000;
  std::map<std::vector<std::uint32_t>, int> seen;
  for (std::uint32_t epoch = 0; epoch < kDraws; ++epoch) ++seen[order_of(4, 9, epoch)];
  EXPECT_EQ(seen.size(), 24u);
  // 1000 of each expected, standard deviation 31.
  for (const auto& [order, count] : seen) EXPECT_NEAR(count, kDraws / 24, 160);
}

TEST(EpochOrder, ReusesItsMemory) {
  std::vector<std::uint32_t> order = order_of(1000, 1, 0);
  const std::uint32_t* const memory = order.data();
  epoch_order(1000, 1, 1, order);
  epoch_order(999, 1, 2, order);
  EXPECT_EQ(order.data(), memory);
}

TEST(EpochOrder, IsTheSameEverywhere) {
  EXPECT_THAT(order_of(10, 1, 0), ElementsAre(3, 8, 1, 5, 4, 7, 9, 0, 6, 2));
  EXPECT_THAT(order_of(10, 1, 1), ElementsAre(5, 7, 3, 8, 9, 4, 2, 0, 6, 1));
  EXPECT_EQ(order_of(60000, 1, 0)[0], 50735u);
}

}  // namespace
}  // namespace trainbench
