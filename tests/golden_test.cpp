// Every backend trains as PyTorch did when the golden files were made (and JAX agreed): the losses
// of 20 steps, and the gradients of the first.

#include "tests/golden.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <numeric>

#include "data/model_file.hpp"
#include "program/layerwise_program.hpp"
#include "tests/test_support.hpp"

namespace trainbench {
namespace {

constexpr double kBand = 10;  // Times the spread that rounding of the weights causes.

TensorFile golden_file(const golden::Setting& setting) {
  const char* source = std::getenv("TRAINBENCH_SOURCE");
  if (source == nullptr) throw std::runtime_error("TRAINBENCH_SOURCE is not set");
  return read_tensor_file(std::string(source) + "/data/golden/" + setting.name + ".safetensors");
}

// Or the files would be of other weights, samples or masks than the suite's.
TEST(GoldenFiles, HoldWhatTheGeneratorMakes) {
  for (const golden::Setting& setting : golden::settings()) {
    const TensorFile file = golden_file(setting), inputs = golden::inputs(setting);
    for (const NamedTensor& input : inputs.tensors) {
      const NamedTensor& stored = file.at(input.name);
      EXPECT_EQ(stored.describe(), input.describe()) << setting.name << " " << input.name;
      EXPECT_TRUE(stored.bytes == input.bytes) << setting.name << " " << input.name;
    }
    EXPECT_EQ(file.metadata, inputs.metadata) << setting.name;
  }
}

// Rounding to float32 leads no further than the band allows, and the band is tight.
TEST(GoldenFiles, AreSound) {
  for (const golden::Setting& setting : golden::settings()) {
    const TensorFile file = golden_file(setting);
    const auto exact = file.at("loss.float64").values<double>();
    const auto rounded = file.at("loss.float32").values<double>();
    const auto spread = file.at("loss_spread.fp32").values<double>();
    ASSERT_EQ(std::ssize(exact), golden::kSteps);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      EXPECT_NEAR(rounded[i], exact[i], kBand * spread[i] + 0x1p-21 * exact[i]) << setting.name;
      EXPECT_LT(spread[i], 1e-3 * exact[i]) << setting.name;
    }
  }
}

struct Parameter {
  golden::Setting setting;
  const Backend* backend;
  Precision precision;

  std::string name() const {
    return setting.name + "_" + std::string(backend->name()) + "_" +
           std::string(to_string(precision));
  }
};
void PrintTo(const Parameter& parameter, std::ostream* out) { *out << parameter.name(); }

std::vector<Parameter> parameters() {
  std::vector<Parameter> all;
  for (const golden::Setting& setting : golden::settings()) {
    for (const Backend* backend : test::training_backends(setting.spec, false)) {
      for (const Precision precision : test::usable_precisions(*backend)) {
        all.push_back({setting, backend, precision});
      }
    }
  }
  return all;
}

class Golden : public testing::TestWithParam<Parameter> {
 protected:
  const golden::Setting& setting() const { return GetParam().setting; }
  Precision precision() const { return GetParam().precision; }
  std::string spread(const std::string& what) const {
    return what + "_spread." + std::string(to_string(precision()));
  }

  void check_losses(const TensorFile& file, std::span<const StepMetrics> steps) const {
    const auto want = file.at("loss.float64").values<double>();
    const auto spreads = file.at(spread("loss")).values<double>();
    ASSERT_EQ(steps.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
      const double loss = steps[i].loss_sum / static_cast<double>(steps[i].samples);
      EXPECT_NEAR(loss, want[i], kBand * spreads[i] + 0x1p-21 * want[i]) << "step " << i + 1;
    }
  }

  // `moments` are Adam's first ones after one step.
  void check_gradients(const TensorFile& file, const TensorFile& moments) const {
    const double share = 1 - setting().spec.adam.beta1;
    // The longest sum, that of the first layer's bias, has a term per pixel of the batch.
    const std::int64_t terms =
        setting().batch * setting().spec.sample[0] * setting().spec.sample[1];
    const double reduced = precision() == Precision::kFp32
                               ? 0
                               : kBand * file.at(spread("gradient")).values<double>().front();
    for (const NamedTensor& tensor : file.tensors) {
      if (!tensor.name.starts_with("gradient.")) continue;
      const std::string parameter = tensor.name.substr(std::string("gradient.").size());
      const auto want = tensor.values<float>();
      const auto got = moments.at("adam.m." + parameter).values<float>();
      ASSERT_EQ(got.size(), want.size()) << parameter;
      double largest = 0;
      for (const float value : want) largest = std::max(largest, std::abs(double{value}));
      const double tolerance = relative_tolerance(Precision::kFp32, terms, 2) * largest + reduced;
      for (std::size_t i = 0; i < want.size(); ++i) {
        ASSERT_NEAR(got[i] / share, want[i], tolerance) << parameter << "[" << i << "]";
      }
    }
  }
};

TEST_P(Golden, TrainsAsPyTorchDid) {
  const TensorFile file = golden_file(setting());
  const Dataset data = golden::samples(setting());
  std::vector<std::uint32_t> order(static_cast<std::size_t>(data.count()));
  std::iota(order.begin(), order.end(), 0u);
  const auto device = GetParam().backend->open_device({.threads = 2});
  const auto program =
      make_program(*GetParam().backend, *device, setting().spec,
                   {.batch = setting().batch, .precision = precision(), .seed = golden::kSeed});
  program->import_state(initial_state(setting().spec, golden::kSeed));
  program->load(data.view());
  program->train(order, 0, 1);
  check_gradients(file, state_to_tensors(setting().spec, program->export_state()));
  program->train(order, 1, golden::kSteps - 1);
  check_losses(file, program->wait());
}

INSTANTIATE_TEST_SUITE_P(Backends, Golden, testing::ValuesIn(parameters()),
                         [](const auto& tested) { return tested.param.name(); });

}  // namespace
}  // namespace trainbench
