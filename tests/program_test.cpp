// What the harness relies on in a program, on every backend: layer by layer, asynchronous, or a
// whole epoch in one call.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "harness/train/trainer.hpp"
#include "kernels/core/stop.hpp"
#include "program/layerwise_program.hpp"
#include "tests/test_support.hpp"

namespace trainbench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kBatch = 8, kSamples = 21;  // Batches of 8, 8 and 5.
constexpr std::int64_t kSteps = 3;                 // Of an epoch.
constexpr std::uint32_t kSeed = 5;

// Without dropout and with a learning rate of 0, a training step only measures.
ModelSpec measuring(ModelSpec spec) {
  std::erase_if(spec.layers, [](const LayerSpec& layer) { return layer.type == "Dropout"; });
  spec.adam.learning_rate = 0;
  return spec;
}

struct Fixture {
  std::unique_ptr<Device> device;
  std::unique_ptr<Program> program;
};

Fixture make(const Backend& backend, const ModelSpec& spec, std::int64_t batch = kBatch,
             int index = 0, Precision precision = Precision::kFp32) {
  Fixture made{backend.open_device({.threads = 2, .index = index}), nullptr};
  made.program = make_program(backend, *made.device, spec,
                              {.batch = batch, .precision = precision, .seed = kSeed});
  made.program->import_state(initial_state(spec, kSeed));
  return made;
}

Dataset data_for(const ModelSpec& spec, std::int64_t count = kSamples) {
  return synthetic(spec.sample, spec.classes(), count, 1);
}

std::vector<StepMetrics> run(Program& program, std::span<const std::uint32_t> order,
                             std::int64_t first, std::int64_t steps) {
  program.train(order, first, steps);
  const auto metrics = program.wait();
  return {metrics.begin(), metrics.end()};
}

std::vector<double> losses(const std::vector<StepMetrics>& metrics) {
  std::vector<double> result;
  for (const StepMetrics& step : metrics) result.push_back(step.loss_sum);
  return result;
}

std::vector<std::int64_t> sizes(const std::vector<StepMetrics>& metrics) {
  std::vector<std::int64_t> result;
  for (const StepMetrics& step : metrics) result.push_back(step.samples);
  return result;
}

void expect_same(const ModelState& a, const ModelState& b) {
  EXPECT_EQ(a.parameters, b.parameters);
  EXPECT_EQ(a.first_moments, b.first_moments);
  EXPECT_EQ(a.second_moments, b.second_moments);
  EXPECT_EQ(a.step, b.step);
}

double largest(const std::vector<float>& values) {
  double result = 0;
  for (const float value : values) result = std::max(result, std::abs(double{value}));
  return result;
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

class Programs : public testing::TestWithParam<const Backend*> {
 protected:
  const Backend& backend() const { return *GetParam(); }
};

TEST_P(Programs, KeepTheStateTheyAreGiven) {
  const ModelSpec spec = test::tiny_cnn();
  const Fixture f = make(backend(), spec);
  ModelState state = initial_state(spec, 3);
  state.first_moments = initial_state(spec, 4).parameters;
  state.second_moments = initial_state(spec, 5).parameters;
  state.step = 7;
  f.program->import_state(state);
  expect_same(f.program->export_state(), state);
}

TEST_P(Programs, RejectAStateOfAnotherModel) {
  const Fixture f = make(backend(), test::tiny_cnn());
  EXPECT_THROW(f.program->import_state(initial_state(mnist_mlp(1, 4), 1)), std::invalid_argument);
}

TEST_P(Programs, TakeAShortLastBatch) {
  const ModelSpec spec = measuring(test::tiny_cnn());
  const Dataset data = data_for(spec);
  const Fixture f = make(backend(), spec);
  f.program->load(data.view());
  const auto order = test::make_order(kSamples);
  const auto metrics = run(*f.program, order, 0, kSteps);
  EXPECT_THAT(sizes(metrics), ElementsAre(8, 8, 5));
  double loss = 0;
  std::int64_t correct = 0;
  for (const StepMetrics& step : metrics) {
    loss += step.loss_sum;
    correct += step.correct;
  }
  const Evaluation all = f.program->evaluate(data.view(), 0, kSamples);
  EXPECT_NEAR(loss, all.loss_sum, 1e-5 * all.loss_sum);
  EXPECT_EQ(correct, all.correct);
}

TEST_P(Programs, WrapAroundTheOrder) {
  const ModelSpec spec = measuring(test::tiny_cnn());
  const Dataset data = data_for(spec);
  const Fixture f = make(backend(), spec);
  f.program->load(data.view());
  const auto order = test::make_order(kSamples);
  const auto metrics = run(*f.program, order, 1, 7);
  EXPECT_THAT(sizes(metrics), ElementsAre(8, 5, 8, 8, 5, 8, 8));
  const std::vector<double> epoch = losses(run(*f.program, order, 0, kSteps));
  EXPECT_NE(epoch[0], epoch[1]);
  EXPECT_THAT(losses(metrics),
              ElementsAre(epoch[1], epoch[2], epoch[0], epoch[1], epoch[2], epoch[0], epoch[1]));
}

TEST_P(Programs, ReportEveryStepSinceTheLastWait) {
  const ModelSpec spec = measuring(test::tiny_cnn());
  const Dataset data = data_for(spec);
  const Fixture f = make(backend(), spec);
  f.program->load(data.view());
  const auto order = test::make_order(kSamples);
  f.program->train(order, 0, 1);
  f.program->train(order, 1, 2);
  f.program->train(order, 0, 0);
  const auto pieces = f.program->wait();
  const std::vector<StepMetrics> kept(pieces.begin(), pieces.end());
  EXPECT_TRUE(f.program->wait().empty());
  EXPECT_EQ(losses(kept), losses(run(*f.program, order, 0, kSteps)));
}

TEST_P(Programs, SeeExactlyTheBatchesOfTheReference) {
  const ModelSpec spec = measuring(test::tiny_cnn());
  const Dataset data = data_for(spec);
  const auto order = test::make_order(kSamples, 3);
  const Fixture f = make(backend(), spec), truth = make(test::find_backend("reference"), spec);
  f.program->load(data.view());
  truth.program->load(data.view());
  const auto got = run(*f.program, order, 0, kSteps), want = run(*truth.program, order, 0, kSteps);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(got[i].loss_sum, want[i].loss_sum, 1e-5 * want[i].loss_sum);
    EXPECT_EQ(got[i].correct, want[i].correct);
    EXPECT_EQ(got[i].samples, want[i].samples);
  }
}

TEST_P(Programs, EvaluateWithoutDisturbingTraining) {
  const ModelSpec spec = test::tiny_cnn();
  const Dataset data = data_for(spec);
  const auto order = test::make_order(kSamples);
  const Fixture alone = make(backend(), spec), both = make(backend(), spec);
  alone.program->load(data.view());
  both.program->load(data.view());
  alone.program->train(order, 0, 4);
  both.program->train(order, 0, 2);
  const Evaluation between = both.program->evaluate(data.view(), 2, 13);
  both.program->train(order, 2, 2);
  both.program->evaluate(data.view(), 0, kSamples);
  const auto want = alone.program->wait();
  const auto got = both.program->wait();
  EXPECT_EQ(losses({got.begin(), got.end()}), losses({want.begin(), want.end()}));
  expect_same(both.program->export_state(), alone.program->export_state());
  EXPECT_EQ(between.predicted.size(), 13u);
}

TEST_P(Programs, EvaluateAsTheReferenceDoes) {
  const ModelSpec spec = test::tiny_cnn();
  const Dataset data = data_for(spec, 3 * kSamples);
  const Fixture f = make(backend(), spec), truth = make(test::find_backend("reference"), spec);
  for (const auto& [first, count] :
       {std::pair<std::int64_t, std::int64_t>{0, 1}, {5, 8}, {40, 23}}) {
    const Evaluation got = f.program->evaluate(data.view(), first, count);
    const Evaluation want = truth.program->evaluate(data.view(), first, count);
    EXPECT_NEAR(got.loss_sum, want.loss_sum, 1e-5 * want.loss_sum);
    EXPECT_EQ(got.correct, want.correct);
    EXPECT_EQ(got.predicted, want.predicted);
  }
  EXPECT_THROW(f.program->evaluate(data.view(), 60, 4), std::out_of_range);
}

// The precisions in which factors are rounded.
std::vector<Precision> reduced_precisions(const Backend& backend) {
  std::vector<Precision> precisions = test::usable_precisions(backend);
  std::erase(precisions, Precision::kFp32);
  return precisions;
}

// Parameters are 32-bit floats in every precision.
TEST_P(Programs, KeepTheStateInReducedPrecisions) {
  const ModelSpec spec = test::tiny_cnn();
  for (const Precision precision : reduced_precisions(backend())) {
    SCOPED_TRACE(to_string(precision));
    const Fixture f = make(backend(), spec, kBatch, 0, precision);
    ModelState state = initial_state(spec, 3);
    state.first_moments = initial_state(spec, 4).parameters;
    state.second_moments = initial_state(spec, 5).parameters;
    state.step = 7;
    f.program->import_state(state);
    expect_same(f.program->export_state(), state);
  }
}

// Also of the shorter last batch; and it is the reduced precision that computes.
TEST_P(Programs, MeasureTheSameInReducedPrecisions) {
  const ModelSpec spec = measuring(test::tiny_cnn());
  const Dataset data = data_for(spec);
  const auto order = test::make_order(kSamples);
  const Fixture truth = make(test::find_backend("reference"), spec);
  const Evaluation want = truth.program->evaluate(data.view(), 0, kSamples);
  for (const Precision precision : reduced_precisions(backend())) {
    SCOPED_TRACE(to_string(precision));
    const Fixture f = make(backend(), spec, kBatch, 0, precision);
    f.program->load(data.view());
    double loss = 0;
    for (const StepMetrics& step : run(*f.program, order, 0, kSteps)) loss += step.loss_sum;
    const Evaluation got = f.program->evaluate(data.view(), 0, kSamples);
    const double tolerance = 8 * input_epsilon(precision) * want.loss_sum;
    EXPECT_NEAR(loss, want.loss_sum, tolerance);
    EXPECT_NEAR(got.loss_sum, want.loss_sum, tolerance);
    EXPECT_GT(std::abs(got.loss_sum - want.loss_sum), 1e-6 * want.loss_sum);
  }
}

TEST_P(Programs, RejectOrdersThatAreNoPermutations) {
  const ModelSpec spec = test::tiny_cnn();
  const Dataset data = data_for(spec);
  const Fixture f = make(backend(), spec);
  const auto order = test::make_order(kSamples);
  EXPECT_THROW(f.program->train(order, 0, 1), std::logic_error);  // Nothing is loaded yet.
  f.program->load(data.view());
  auto twice = order, beyond = order, shorter = order;
  twice[3] = twice[4];
  beyond[3] = static_cast<std::uint32_t>(kSamples);
  shorter.pop_back();
  EXPECT_THROW(f.program->train(twice, 0, 1), std::invalid_argument);
  EXPECT_THROW(f.program->train(beyond, 0, 1), std::invalid_argument);
  EXPECT_THROW(f.program->train(shorter, 0, 1), std::invalid_argument);
  EXPECT_THROW(f.program->train(order, -1, 1), std::invalid_argument);
  EXPECT_THROW(f.program->train(order, 0, -1), std::invalid_argument);
  EXPECT_EQ(run(*f.program, order, 0, 1).size(), 1u);
  EXPECT_EQ(f.program->export_state().step, 1u);
}

TEST_P(Programs, HoldTheBatchAgainstTheData) {
  const ModelSpec spec = test::tiny_cnn();
  const Dataset data = data_for(spec, 10);
  const auto order = test::make_order(10);
  const auto epoch_sizes = [&](std::int64_t batch) {
    const Fixture f = make(backend(), spec, batch);
    f.program->load(data.view());
    return sizes(run(*f.program, order, 0, (10 + batch - 1) / batch));
  };
  EXPECT_THAT(epoch_sizes(10), ElementsAre(10));
  EXPECT_THAT(epoch_sizes(5), ElementsAre(5, 5));
  EXPECT_THAT(epoch_sizes(7), ElementsAre(7, 3));
  EXPECT_THAT(error_of([&] { epoch_sizes(16); }), HasSubstr("batch 16 > 10 samples"));
  EXPECT_THAT(error_of([&] { make(backend(), spec, 0); }), HasSubstr("at least 1"));
  EXPECT_THAT(error_of([&] { make(backend(), spec, -1); }), HasSubstr("at least 1"));
}

TEST_P(Programs, RejectDataOfAnotherShape) {
  const Fixture f = make(backend(), test::tiny_cnn());
  const Dataset other = synthetic({7, 6, 3}, 4, 20, 1), more = synthetic({6, 7, 3}, 5, 20, 1);
  EXPECT_THAT(error_of([&] { f.program->load(other.view()); }), HasSubstr("7x6x3"));
  EXPECT_THAT(error_of([&] { f.program->load(more.view()); }), HasSubstr("5 classes"));
  EXPECT_THROW(f.program->evaluate(other.view(), 0, 1), std::invalid_argument);
}

TEST_P(Programs, LoadOtherDataLater) {
  const ModelSpec spec = measuring(test::tiny_cnn());
  const Dataset small = data_for(spec, 9), large = data_for(spec, 30);
  const Fixture f = make(backend(), spec), fresh = make(backend(), spec);
  f.program->load(small.view());
  run(*f.program, test::make_order(9), 0, 2);
  f.program->load(large.view());
  fresh.program->load(large.view());
  const auto order = test::make_order(30);
  EXPECT_EQ(losses(run(*f.program, order, 0, 4)), losses(run(*fresh.program, order, 0, 4)));
}

// A label that no class has is never followed into memory; the loss tells.
TEST_P(Programs, TellABadLabelByTheLoss) {
  const ModelSpec spec = test::tiny_cnn();
  Dataset data = data_for(spec);
  data.labels[2] = 200;
  const Fixture f = make(backend(), spec);
  EXPECT_TRUE(std::isnan(f.program->evaluate(data.view(), 0, 5).loss_sum));
  EXPECT_TRUE(std::isfinite(f.program->evaluate(data.view(), 3, 5).loss_sum));
}

// The first moments after one step are the gradients times 1 - beta1.
TEST_P(Programs, HaveTheGradientsOfTheReference) {
  const ModelSpec spec = test::tiny_cnn();
  const Dataset data = data_for(spec);
  const auto order = test::make_order(kSamples);
  const Fixture f = make(backend(), spec), truth = make(test::find_backend("reference"), spec);
  for (const Fixture* one : {&f, &truth}) {
    one->program->load(data.view());
    run(*one->program, order, 2, 1);  // The short batch.
  }
  const ModelState got = f.program->export_state(), want = truth.program->export_state();
  const double tolerance = 2e-6 * largest(want.first_moments);
  ASSERT_GT(tolerance, 0);
  for (std::size_t i = 0; i < want.parameters.size(); ++i) {
    ASSERT_NEAR(got.first_moments[i], want.first_moments[i], tolerance) << "parameter " << i;
  }
}

// flatten, dense, dropout, dense: with one sample a unit that is dropped has no gradient on either
// side, so that both passes show their mask.
ModelSpec mask_model() {
  return {.name = "mask_model",
          .sample = {3, 3, 1},
          .layers = {flatten("flatten"), layer<Dense>("dense1", {.units = 40}),
                     layer<Dropout>("dropout1", {.rate = 0.5, .layer = 0}),
                     layer<Dense>("dense2", {.units = 3, .bias = false})},
          .adam = {}};
}

std::set<int> kept_by_definition(std::uint32_t updates) {
  std::set<int> kept;
  for (int unit = 0; unit < 40; ++unit) {
    if (!Dropout::dropped({.elements = 40, .rate = 0.5, .seed = kSeed, .layer = 0}, updates,
                          static_cast<std::uint64_t>(unit)))
      kept.insert(unit);
  }
  return kept;
}

TEST_P(Programs, DropByTheGlobalStepInBothPasses) {
  const ModelSpec spec = mask_model();
  const Dataset data = data_for(spec, 4);
  const auto order = test::make_order(4);
  const Fixture f = make(backend(), spec, 1);
  f.program->load(data.view());
  EXPECT_NE(kept_by_definition(0), kept_by_definition(1));
  // Moments of zero before each step, so that they hold this step's gradients alone.
  for (const std::uint32_t updates : {0u, 1u, 7u}) {
    ModelState state = initial_state(spec, kSeed);
    state.step = updates;
    f.program->import_state(state);
    run(*f.program, order, 0, 1);
    const ModelState after = f.program->export_state();
    EXPECT_EQ(after.step, updates + 1);
    const float* bias1 = after.first_moments.data() + 9 * 40;
    const float* weights2 = bias1 + 40;
    std::set<int> forward, backward;
    for (int unit = 0; unit < 40; ++unit) {
      if (bias1[unit] != 0) backward.insert(unit);
      if (weights2[3 * unit] != 0) forward.insert(unit);
    }
    EXPECT_EQ(forward, kept_by_definition(updates));
    EXPECT_EQ(backward, kept_by_definition(updates));
  }
}

TEST_P(Programs, CountStepsOnFromWhereTheyAre) {
  const ModelSpec spec = test::tiny_cnn();
  const Dataset data = data_for(spec);
  const auto order = test::make_order(kSamples);
  const Fixture whole = make(backend(), spec), halves = make(backend(), spec);
  whole.program->load(data.view());
  halves.program->load(data.view());
  const auto want = losses(run(*whole.program, order, 0, 6));
  run(*halves.program, order, 0, 3);
  const ModelState middle = halves.program->export_state();
  EXPECT_EQ(middle.step, 3u);
  const Fixture resumed = make(backend(), spec);
  resumed.program->load(data.view());
  resumed.program->import_state(middle);
  const auto rest = losses(run(*resumed.program, order, 3, 3));
  EXPECT_EQ(rest, std::vector<double>(want.begin() + 3, want.end()));
  expect_same(resumed.program->export_state(), whole.program->export_state());
}

TEST_P(Programs, TraceTheirPhases) {
  const ModelSpec spec = test::tiny_cnn();
  const Dataset data = data_for(spec);
  const auto order = test::make_order(kSamples);
  const Fixture f = make(backend(), spec);
  f.program->load(data.view());
  const std::vector<Phase> phases = f.program->trace(order, 2);
  ASSERT_FALSE(phases.empty());
  double seconds = 0;
  for (const Phase& phase : phases) {
    EXPECT_FALSE(phase.name.empty());
    EXPECT_GE(phase.seconds, 0) << phase.name;
    seconds += phase.seconds;
  }
  EXPECT_GT(seconds, 0);
  EXPECT_LT(seconds, 10);
  EXPECT_EQ(f.program->export_state().step, 2u);
  EXPECT_TRUE(f.program->wait().empty());
  EXPECT_THROW(f.program->trace(order, 0), std::invalid_argument);
}

TEST_P(Programs, LabelThemselves) {
  const std::string label = make(backend(), test::tiny_cnn()).program->label();
  EXPECT_THAT(label, HasSubstr("program="));
  std::stringstream parts(label);
  for (std::string part; std::getline(parts, part, ';');) {
    EXPECT_NE(part.find('='), std::string::npos) << part;
    EXPECT_EQ(part.find('='), part.rfind('=')) << part;
  }
}

TEST_P(Programs, CountTheSameWorkOnEveryBackend) {
  const ModelSpec spec = test::tiny_cnn();
  const Fixture f = make(backend(), spec), truth = make(test::find_backend("reference"), spec);
  EXPECT_GT(f.program->effective_flops(), 0);
  EXPECT_DOUBLE_EQ(f.program->effective_flops(), truth.program->effective_flops());
  EXPECT_GT(f.program->executed_flops(), 0);
}

// In a process of its own: the flag cannot be taken back.
void train_until_stopped(const Backend& backend) {
  const ModelSpec spec = test::tiny_cnn();
  const Dataset data = data_for(spec);
  const auto order = test::make_order(kSamples);
  const Fixture f = make(backend, spec);
  f.program->load(data.view());
  request_stop();
  try {
    f.program->train(order, 0, 1000);
    f.program->wait();
  } catch (const Interrupted&) {
    std::exit(42);
  }
  std::exit(0);
}

using ProgramsDeathTest = Programs;

TEST_P(ProgramsDeathTest, StopWhenAsked) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // Teams of other tests may be alive.
  EXPECT_EXIT(train_until_stopped(backend()), testing::ExitedWithCode(42), "");
}

INSTANTIATE_TEST_SUITE_P(Backends, Programs,
                         testing::ValuesIn(test::training_backends(test::tiny_cnn(), false)),
                         [](const auto& tested) { return std::string(tested.param->name()); });
INSTANTIATE_TEST_SUITE_P(Backends, ProgramsDeathTest,
                         testing::ValuesIn(test::training_backends(test::tiny_cnn(), false)),
                         [](const auto& tested) { return std::string(tested.param->name()); });

TEST(LayerwiseProgram, TracesEveryCallInOrder) {
  const ModelSpec spec = mask_model();
  const Dataset data = data_for(spec);
  const Fixture f = make(test::find_backend("reference"), spec);
  f.program->load(data.view());
  std::vector<std::string> names;
  for (const Phase& phase : f.program->trace(test::make_order(kSamples), 1)) {
    names.push_back(phase.name);
  }
  EXPECT_THAT(names,
              ElementsAre("gather/forward", "dense1/forward", "dropout1/forward", "dense2/forward",
                          "loss/forward", "loss/backward_data", "dense2/backward_weights",
                          "dense2/backward_data", "dropout1/backward_data",
                          "dense1/backward_weights", "adam/update"));
}

TEST(LayerwiseProgram, ReordersBetweenLayoutsAndSaysSo) {
  const ModelSpec spec = test::tiny_cnn();
  EXPECT_THAT(make(test::find_backend("template_backend"), spec).program->label(),
              HasSubstr("reorders="));
  EXPECT_EQ(make(test::find_backend("reference"), spec).program->label().find("reorders="),
            std::string::npos);
}

TEST(TemplateFused, RunsAnEpochAsOnePhase) {
  const ModelSpec spec = test::tiny_cnn();
  const Dataset data = data_for(spec);
  const Fixture f = make(test::find_backend("template_fused"), spec);
  f.program->load(data.view());
  EXPECT_EQ(f.program->trace(test::make_order(kSamples), kSteps).size(), 1u);
}

// Epoch after epoch, with work that still reads the order when the trainer already waits.
TEST(TemplateFused, IsTrainedAsTheReferenceIs) {
  const ModelSpec spec = test::tiny_cnn();
  const TrainTest data{data_for(spec), synthetic(spec.sample, spec.classes(), 9, 1, kSamples), {}};
  std::vector<double> losses;
  for (const std::string name : {"reference", "template_fused"}) {
    const Backend& backend = test::find_backend(name);
    const auto device = backend.open_device({});
    TrainingResult result;
    train_model(backend, *device, spec, data, {.epochs = 3, .batch = kBatch, .validate = 4}, {},
                result);
    ASSERT_EQ(result.epochs.size(), 3u);
    losses.push_back(result.epochs.back().training.loss);
  }
  EXPECT_NEAR(losses[1], losses[0], 1e-4 * losses[0]);
}

// The tests above must see a reduced precision on every machine, and none that a machine lacks.
TEST(TemplateBackend, HasAReducedPrecisionAndLacksOne) {
  EXPECT_THAT(reduced_precisions(test::find_backend("template_backend")),
              ElementsAre(Precision::kBf16));
}

TEST(TemplateBackend, ComputesOnEachOfItsDevices) {
  const ModelSpec spec = test::tiny_cnn();
  const Dataset data = data_for(spec);
  const auto order = test::make_order(kSamples);
  const Backend& backend = test::find_backend("template_backend");
  ASSERT_EQ(backend.device_count(), 2);
  const Fixture first = make(backend, spec, kBatch, 0), second = make(backend, spec, kBatch, 1);
  EXPECT_NE(first.device->name(), second.device->name());
  for (const Fixture* f : {&first, &second}) {
    f->program->load(data.view());
    f->program->train(order, 0, kSteps);
  }
  second.program->wait();
  first.program->wait();
  expect_same(first.program->export_state(), second.program->export_state());
}

}  // namespace
}  // namespace trainbench
