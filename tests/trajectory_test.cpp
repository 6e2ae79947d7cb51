// Losses of the first steps of every contestant against the reference's. Adam's first steps are
// sign-like, so rounding may grow: the allowed band is ten times what a change of the initial
// weights by one rounding makes of the reference's own losses.

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "kernels/core/threefry.hpp"
#include "program/layerwise_program.hpp"
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

Outcome train(const Backend& backend, const Setting& setting, const ModelState& state,
              Precision precision = Precision::kFp32) {
  const Dataset data = data_of(setting);
  const auto order = test::make_order(data.count());
  const auto device = backend.open_device({.threads = 2});
  const auto program =
      make_program(backend, *device, setting.spec,
                   {.batch = setting.batch, .precision = precision, .seed = kSeed});
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

// What a precision rounds factors by, relative.
double epsilon(Precision precision) { return std::max(input_epsilon(precision), 0x1p-23); }

// Every weight times 1 + u * epsilon, u uniform in [-1, 1).
ModelState perturbed(ModelState state, double epsilon, std::uint32_t seed) {
  for (std::size_t i = 0; i < state.parameters.size(); ++i) {
    const std::uint32_t word = threefry::block({seed, 0}, {static_cast<std::uint32_t>(i), 0})[0];
    state.parameters[i] =
        static_cast<float>(state.parameters[i] * (1 + epsilon * (2 * (word * 0x1p-32) - 1)));
  }
  return state;
}

struct Truth {
  Outcome outcome;
  std::vector<double> spread;
  double gradient_spread = 0;  // The largest of any parameter.
};

// Made once per setting and precision: the reference is slow.
const Truth& truth(const Setting& setting, Precision precision) {
  static std::map<std::pair<std::string, Precision>, Truth> known;
  const auto it = known.find({setting.name, precision});
  if (it != known.end()) return it->second;
  const Backend& reference = test::find_backend("reference");
  const ModelState state = initial_state(setting.spec, kSeed);
  Truth result{train(reference, setting, state), {}, 0};
  result.spread.resize(result.outcome.losses.size());
  for (const std::uint32_t seed : {1u, 2u, 3u}) {
    const Outcome changed = train(reference, setting, perturbed(state, epsilon(precision), seed));
    for (std::size_t i = 0; i < result.spread.size(); ++i) {
      result.spread[i] =
          std::max(result.spread[i], std::abs(changed.losses[i] - result.outcome.losses[i]));
    }
    for (std::size_t i = 0; i < changed.first_gradients.size(); ++i) {
      const double difference =
          std::abs(double{changed.first_gradients[i]} - result.outcome.first_gradients[i]);
      result.gradient_spread = std::max(result.gradient_spread, difference);
    }
  }
  return known.emplace(std::pair(setting.name, precision), std::move(result)).first->second;
}

struct Parameter {
  const Setting* setting;
  const Backend* backend;
  Precision precision;

  std::string name() const {
    return setting->name + "_" + std::string(backend->name()) + "_" +
           std::string(to_string(precision));
  }
};
void PrintTo(const Parameter& parameter, std::ostream* out) { *out << parameter.name(); }

std::vector<Parameter> parameters() {
  std::vector<Parameter> all;
  for (const Setting& setting : settings()) {
    for (const Backend* backend : test::training_backends(test::tiny_cnn(), true)) {
      for (const Precision precision : test::usable_precisions(*backend)) {
        all.push_back({&setting, backend, precision});
      }
    }
  }
  return all;
}

class Trajectories : public testing::TestWithParam<Parameter> {};

TEST_P(Trajectories, FollowTheReference) {
  const Setting& setting = *GetParam().setting;
  const Precision precision = GetParam().precision;
  const Truth& want = truth(setting, precision);
  const Outcome got =
      train(*GetParam().backend, setting, initial_state(setting.spec, kSeed), precision);
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
  // In a reduced precision every layer rounds on the way, and units near zero come out on the other
  // side of a ReLU: as with losses, by how much is what rounding the weights does.
  const double tolerance = relative_tolerance(Precision::kFp32, terms, 2) * largest +
                           (precision == Precision::kFp32 ? 0 : kBand * want.gradient_spread);
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
  const Truth& want = truth(setting, Precision::kFp32);
  for (std::size_t i = 0; i < got.losses.size(); ++i) {
    EXPECT_GT(std::abs(got.losses[i] - want.outcome.losses[i]), kBand * want.spread[i] + 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Trajectories, testing::ValuesIn(parameters()),
                         [](const auto& tested) { return tested.param.name(); });

}  // namespace
}  // namespace trainbench
