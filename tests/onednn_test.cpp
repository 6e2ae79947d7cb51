// oneDNN is used as its authors would use it: at every width and batch of the models no primitive
// falls back to plain loops, no convolution to a matrix product, and images keep their form from
// convolution to convolution. Read from the plans that programs run by.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/ops/reorder.hpp"
#include "program/step_plan.hpp"
#include "tests/test_support.hpp"

namespace trainbench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const Backend* onednn() {
  for (const auto& backend : test::all_backends()) {
    if (backend->name() == "onednn") return backend.get();
  }
  return nullptr;
}

std::string isa() {
  for (const auto& [key, value] : onednn()->probe().context) {
    if (key == "onednn_isa") return value;
  }
  return "";
}

struct Setting {
  ModelSpec spec;
  std::int64_t batch;
  std::string name;
};

void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.name; }

std::vector<Setting> convolutional() {
  std::vector<Setting> all;
  for (const std::int64_t width : {4, 8, 16, 32, 48, 64}) {
    for (const std::int64_t batch : {1, 8, 100}) {
      all.push_back({cifar10_cnn(width), batch,
                     "cnn_" + std::to_string(width) + "_batch_" + std::to_string(batch)});
    }
  }
  return all;
}

std::vector<Setting> settings() {
  std::vector<Setting> all = convolutional();
  for (const auto& [depth, width] : {std::pair{1, 32}, {1, 128}, {2, 1000}, {4, 50}}) {
    for (const std::int64_t batch : {1, 32, 128}) {
      all.push_back({mnist_mlp(depth, width), batch,
                     "mlp_" + std::to_string(depth) + "x" + std::to_string(width) + "_batch_" +
                         std::to_string(batch)});
    }
  }
  return all;
}

class Onednn : public testing::TestWithParam<Setting> {
 protected:
  void SetUp() override {
    if (onednn() == nullptr) GTEST_SKIP() << "this build has no oneDNN";
    device_ = onednn()->open_device({.threads = 2});
  }
  // As a program plans: training at the full batch, then the shorter last batch, then evaluation.
  std::vector<StepPlan> plans(const Setting& setting, Precision precision) {
    std::vector<StepPlan> made;
    slots_.clear();
    const auto add = [&](std::int64_t batch, bool inference) {
      made.push_back(plan_step({.spec = setting.spec,
                                .ops = ops_,
                                .device = *device_,
                                .batch = batch,
                                .precision = precision,
                                .seed = 1,
                                .inference = inference},
                               slots_));
    };
    add(setting.batch, false);
    if (setting.batch > 1) add(setting.batch / 2 + 1, false);
    add(setting.batch, true);
    return made;
  }

  OpTable ops_ = onednn() == nullptr ? OpTable() : onednn()->ops();
  std::unique_ptr<Device> device_;
  std::vector<ParameterSlot> slots_;
};

TEST_P(Onednn, NeverFallsBackToSlowCode) {
  // For these it has code of its own for forward convolutions only.
  const bool must_multiply = isa() == "sse41" || isa() == "avx";
  for (const Precision precision : test::usable_precisions(*onednn())) {
    for (const StepPlan& plan : plans(GetParam(), precision)) {
      for (const Call& call : plan.calls) {
        const std::string implementation = call.op->implementation(call.pass);
        EXPECT_THAT(implementation, Not(HasSubstr("ref"))) << call.phase;
        if (call.problem->op() != Conv2d::kName || must_multiply) continue;
        // "brgemm" is code for the shape; "gemm" is not.
        EXPECT_THAT(implementation, Not(testing::StartsWith("gemm"))) << call.phase;
        EXPECT_THAT(implementation, Not(HasSubstr(":gemm"))) << call.phase;
      }
    }
  }
}

class OnednnConvolutions : public Onednn {};

// Then kernels for forward want another form than those for the gradient of the weights.
bool has_few_channels(const Setting& setting) {
  constexpr std::int64_t kFew = 16;
  const auto is_narrow = [](const LayerSpec& layer) {
    const auto* config = layer.config_as<Conv2d::Config>();
    return config != nullptr && config->out_channels < kFew;
  };
  return std::ranges::any_of(setting.spec.layers, is_narrow);
}

std::string layer_of(const Call& call) { return call.phase.substr(0, call.phase.find('/')); }

// The names of layers whose type is Conv2D, in order.
std::vector<std::string> convolutions(const ModelSpec& spec) {
  std::vector<std::string> names;
  for (const LayerSpec& layer : spec.layers) {
    if (layer.type == Conv2d::kLayerType) names.push_back(layer.name);
  }
  return names;
}

// A reorder is named after the layer it serves. Allowed are the model's input, and both sides of
// the change from images to rows behind the last convolution.
TEST_P(OnednnConvolutions, KeepTheFormOfImagesInBetween) {
  const std::vector<std::string> convs = convolutions(GetParam().spec);
  for (const Precision precision : test::usable_precisions(*onednn())) {
    for (const StepPlan& plan : plans(GetParam(), precision)) {
      bool forward = true;
      for (const Call& call : plan.calls) {
        forward = forward && call.phase != "loss/forward";
        if (call.problem->op() != Reorder::kName) continue;
        const std::string layer = layer_of(call);
        const bool is_image_layer = layer.starts_with("conv") || layer.starts_with("pool");
        if (!is_image_layer) continue;
        EXPECT_EQ(layer, forward ? convs.front() : convs.back()) << call.phase;
      }
    }
  }
}

// Weights and their gradients are kept in one form for all plans. In fp32, backward_data alone may
// copy them into another form.
TEST_P(Onednn, AgreesOnTheFormOfTheWeights) {
  for (const Precision precision : test::usable_precisions(*onednn())) {
    for (const StepPlan& plan : plans(GetParam(), precision)) {
      for (std::size_t i = 0; i < plan.calls.size(); ++i) {
        const Call& call = plan.calls[i];
        const bool is_reorder = call.problem->op() == Reorder::kName;
        // Behind backward_weights of the same layer it would be of the gradient.
        const bool is_gradient = is_reorder && i > 0 &&
                                 plan.calls[i - 1].pass == Pass::kBackwardWeights &&
                                 layer_of(plan.calls[i - 1]) == layer_of(call);
        EXPECT_FALSE(is_gradient) << call.phase << " at batch " << plan.batch;
        EXPECT_FALSE(is_reorder && call.phase.find(".w/") != std::string::npos) << call.phase;
        const std::string implementation = call.op->implementation(call.pass);
        const bool may_copy = precision != Precision::kFp32 || call.pass == Pass::kBackwardData ||
                              isa() == "sse41" || isa() == "avx" || has_few_channels(GetParam());
        EXPECT_TRUE(may_copy || implementation.find("reorder(w)") == std::string::npos)
            << call.phase << ": " << implementation;
      }
    }
    for (const ParameterSlot& slot : slots_) EXPECT_TRUE(slot.layout.fp32) << slot.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Onednn, testing::ValuesIn(settings()),
                         [](const auto& tested) { return tested.param.name; });
INSTANTIATE_TEST_SUITE_P(Models, OnednnConvolutions, testing::ValuesIn(convolutional()),
                         [](const auto& tested) { return tested.param.name; });

// Evaluation in the middle of training neither keeps nor uses what a pending backward pass needs.
TEST(OnednnPooling, KeepsNoWorkspaceForEvaluation) {
  if (onednn() == nullptr) GTEST_SKIP() << "this build has no oneDNN";
  const auto device = onednn()->open_device({.threads = 1});
  const OpTable ops = onednn()->ops();
  const auto problem = make_problem<MaxPool2d>(
      {.batch = 2, .height = 8, .width = 8, .channels = 16, .window = {2, 2, Padding::kValid}});
  EXPECT_GT(problem->create(ops, {.device = *device})->state_bytes(), 0u);
  EXPECT_EQ(problem->create(ops, {.device = *device, .inference = true})->state_bytes(), 0u);
}

TEST(OnednnErrors, NameOpShapeTypeAndIsa) {
  if (onednn() == nullptr) GTEST_SKIP() << "this build has no oneDNN";
  const auto device = onednn()->open_device({.threads = 1});
  const OpTable ops = onednn()->ops();
  const auto problem = make_problem<Conv2d>({.batch = 2,
                                             .height = 8,
                                             .width = 8,
                                             .in_channels = 3,
                                             .out_channels = 5,
                                             .window = {3, 1, Padding::kSame}});
  try {
    problem->create(ops, {.device = *device, .precision = Precision::kTf32});
    ADD_FAILURE() << "tf32 was accepted";
  } catch (const Unsupported& error) {
    for (const std::string& part : {std::string("conv2d"), problem->describe(), std::string("tf32"),
                                    isa(), std::string("oneDNN")}) {
      EXPECT_THAT(error.what(), HasSubstr(part));
    }
  }
}

}  // namespace
}  // namespace trainbench
