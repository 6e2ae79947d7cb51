// Losses of the first steps of every contestant against the reference's. Adam's first steps are
// sign-like, so rounding may grow: the allowed band is ten times what a change of the initial
// weights by one rounding makes of the reference's own losses.

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "harness/layerwise_program.hpp"
#include "kernels/core/threefry.hpp"
#include "tests/test_support.hpp"

namespace trainbench {
namespace {

constexpr std::uint32_t kSeed = 1;
constexpr double kBand = 10;

struct Setting {
  std::string name;
  ModelSpec spec;
  std::int64_t batch, steps;
};

const std::vector<Setting>& settings() {
  static const std::vector<Setting> all = {{"cnn_width_4", cifar10_cnn(4), 8, 8},
                                           {"mlp_width_32", mnist_mlp(1, 32), 32, 20},
                                           {"mlp_depth_2", mnist_mlp(2, 32), 32, 20}};
  return all;
}

struct Outcome {
  std::vector<double> losses;
  std::vector<float> first_gradients;  // Of the first step.
};

Dataset data_of(const Setting& setting) {
  return synthetic(setting.spec.sample, setting.spec.classes(),
                   setting.steps * setting.batch - setting.batch / 2, 1);  // A short last batch.
}

Outcome train(const Backend& backend, const Setting& setting, const ModelState& state) {
  const Dataset data = data_of(setting);
  const auto order = test::make_order(data.count());
  const auto device = backend.open_device({.threads = 2});
  const auto program =
      make_program(backend, *device, setting.spec, {.batch = setting.batch, .seed = kSeed});
  program->import_state(state);
  program->load(data.view());
  Outcome outcome;
  const auto train_on = [&](std::int64_t first, std::int64_t steps) {
    program->train(order, first, steps);
    for (const StepMetrics& step : program->wait()) {
      outcome.losses.push_back(step.loss_sum / static_cast<double>(step.samples));
    }
  };
  train_on(0, 1);
  outcome.first_gradients = program->export_state().first_moments;
  for (float& value : outcome.first_gradients) {
    value /= static_cast<float>(1 - setting.spec.adam.beta1);
  }
  train_on(1, setting.steps - 1);
  return outcome;
}

// Every weight times 1 + u * 2^-23, u uniform in [-1, 1).
ModelState perturbed(ModelState state, std::uint32_t seed) {
  for (std::size_t i = 0; i < state.parameters.size(); ++i) {
    const std::uint32_t word = threefry::block({seed, 0}, {static_cast<std::uint32_t>(i), 0})[0];
    state.parameters[i] =
        static_cast<float>(state.parameters[i] * (1 + 0x1p-23 * (2 * (word * 0x1p-32) - 1)));
  }
  return state;
}

struct Truth {
  Outcome outcome;
  std::vector<double> spread;
};

// Made once per setting: the reference is slow.
const Truth& truth(const Setting& setting) {
  static std::map<std::string, Truth> known;
  const auto it = known.find(setting.name);
  if (it != known.end()) return it->second;
  const Backend& reference = test::find_backend("reference");
  const ModelState state = initial_state(setting.spec, kSeed);
  Truth result{train(reference, setting, state), {}};
  result.spread.resize(result.outcome.losses.size());
  for (const std::uint32_t seed : {1u, 2u, 3u}) {
    const Outcome changed = train(reference, setting, perturbed(state, seed));
    for (std::size_t i = 0; i < result.spread.size(); ++i) {
      result.spread[i] =
          std::max(result.spread[i], std::abs(changed.losses[i] - result.outcome.losses[i]));
    }
  }
  return known.emplace(setting.name, std::move(result)).first->second;
}

using Parameter = std::tuple<std::size_t, const Backend*>;
class Trajectories : public testing::TestWithParam<Parameter> {};

TEST_P(Trajectories, FollowTheReference) {
  const Setting& setting = settings()[std::get<0>(GetParam())];
  const Truth& want = truth(setting);
  const Outcome got = train(*std::get<1>(GetParam()), setting, initial_state(setting.spec, kSeed));
  ASSERT_EQ(std::ssize(got.losses), setting.steps);
  for (std::size_t i = 0; i < got.losses.size(); ++i) {
    // A float's rounding of the sum itself is allowed beside the band.
    const double allowed = kBand * want.spread[i] + 0x1p-21 * want.outcome.losses[i];
    EXPECT_NEAR(got.losses[i], want.outcome.losses[i], allowed) << "step " << i + 1;
  }
  double largest = 0;
  for (const float value : want.outcome.first_gradients) {
    largest = std::max(largest, std::abs(double{value}));
  }
  // The longest sum, that of the first layer's bias, has a term per pixel of the batch.
  const std::int64_t terms = setting.batch * setting.spec.sample[0] * setting.spec.sample[1];
  const double tolerance = relative_tolerance(Precision::kFp32, terms, 2) * largest;
  for (std::size_t i = 0; i < want.outcome.first_gradients.size(); ++i) {
    ASSERT_NEAR(got.first_gradients[i], want.outcome.first_gradients[i], tolerance)
        << "parameter " << i;
  }
}

// The band must be tight enough to tell a wrong computation: here, other dropout masks.
TEST(TrajectoryBand, TellsOtherMasksApart) {
  const Setting& setting = settings()[1];
  Setting other = setting;
  for (LayerSpec& layer : other.spec.layers) {
    if (layer.type == "Dropout") {
      layer = trainbench::layer<Dropout>(layer.name, {.rate = 0.2, .layer = 1});
    }
  }
  const Outcome got =
      train(test::find_backend("reference"), other, initial_state(setting.spec, kSeed));
  const Truth& want = truth(setting);
  for (std::size_t i = 0; i < got.losses.size(); ++i) {
    EXPECT_GT(std::abs(got.losses[i] - want.outcome.losses[i]), kBand * want.spread[i] + 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Backends, Trajectories,
    testing::Combine(testing::Range<std::size_t>(0, 3),
                     testing::ValuesIn(test::training_backends(test::tiny_cnn(), true))),
    [](const auto& tested) {
      return settings()[std::get<0>(tested.param)].name + "_" +
             std::string(std::get<1>(tested.param)->name());
    });

}  // namespace
}  // namespace trainbench
