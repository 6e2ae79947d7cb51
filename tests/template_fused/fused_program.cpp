#include "tests/template_fused/fused_program.hpp"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "kernels/core/checks.hpp"
#include "kernels/core/stop.hpp"
#include "kernels/ops/training_checks.hpp"
#include "tests/template_backend/kernels.hpp"
#include "tests/template_fused/stages.hpp"

namespace trainbench::template_fused {
namespace {

using template_backend::TemplateDevice;

std::size_t float_bytes(std::int64_t count) {
  return static_cast<std::size_t>(count) * sizeof(float);
}

// Parameters, both moments and the training data are in device memory; everything between them
// lives only while queued work runs.
class FusedProgram final : public Program {
 public:
  FusedProgram(const ModelSpec& spec, const CompileOptions& options, TemplateDevice& device)
      : device_(device),
        spec_(spec),
        options_(options),
        stages_(make_stages(spec, options.seed)),
        parameters_(device, float_bytes(spec.parameters())),
        first_moments_(device, float_bytes(spec.parameters())),
        second_moments_(device, float_bytes(spec.parameters())) {
    require(options.batch >= 1, "batch must be at least 1, not " + std::to_string(options.batch));
    if (options.precision != Precision::kFp32 || options.input != Input::kResident ||
        options.devices != 1) {
      throw Unsupported("template_fused computes in fp32 on one device with resident data");
    }
    largest_ = spec.sample.elements();
    for (const auto& stage : stages_) largest_ = std::max(largest_, stage->outputs);
  }
  ~FusedProgram() override { device_.abandon(); }  // Queued work points here.

  void load(const DatasetView& training) override {
    check_training_data(spec_, options_.batch, training);
    const std::int64_t pixels = training.count * spec_.sample.elements();
    images_ = Buffer(device_, static_cast<std::size_t>(pixels));
    labels_ = Buffer(device_, static_cast<std::size_t>(training.count));
    device_.upload(images_.data(), training.images, images_.bytes());
    device_.upload(labels_.data(), training.labels, labels_.bytes());
    check_order_ = OrderCheck(training.count);
    count_ = training.count;
  }

  void train(std::span<const std::uint32_t> order, std::int64_t first_step,
             std::int64_t steps) override {
    if (count_ == 0) throw std::logic_error("train() needs load() first");
    check_order_(order, first_step, steps);
    check_stop();
    const std::int64_t per_epoch = (count_ + options_.batch - 1) / options_.batch;
    // The order is read when the work runs, as a device with direct memory access does.
    device_.enqueue([this, order, first_step, steps, per_epoch] {
      for (std::int64_t i = 0; i < steps; ++i) {
        check_stop();
        const std::int64_t first = (first_step + i) % per_epoch * options_.batch;
        const std::int64_t batch = std::min(options_.batch, count_ - first);
        step(order.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(batch)));
      }
    });
  }

  std::span<const StepMetrics> wait() override {
    results_.clear();
    device_.synchronize();
    results_.swap(running_);
    return results_;
  }

  Evaluation evaluate(const DatasetView& data, std::int64_t first, std::int64_t count) override {
    check_samples(spec_, data);
    const DatasetView part = data.slice(first, count);
    Evaluation result;
    result.predicted.resize(static_cast<std::size_t>(count));
    device_.enqueue([this, part, &result] {
      for (std::int64_t done = 0; done < part.count; done += options_.batch) {
        const DatasetView batch = part.slice(done, std::min(options_.batch, part.count - done));
        forward(batch.images, batch.labels, identity(batch.count), true);
        const template_backend::LossResult loss =
            softmax(&result.predicted[static_cast<std::size_t>(done)]);
        result.loss_sum += loss.loss;
        result.correct += loss.correct;
      }
    });
    device_.synchronize();
    return result;
  }

  void import_state(const ModelState& state) override {
    for (const auto& [buffer, values] : {std::pair(&parameters_, &state.parameters),
                                         std::pair(&first_moments_, &state.first_moments),
                                         std::pair(&second_moments_, &state.second_moments)}) {
      require(
          std::ssize(*values) == spec_.parameters(),
          "a state of " + std::to_string(values->size()) + " values does not fit " + spec_.name);
      device_.upload(buffer->data(), values->data(), buffer->bytes());
    }
    updates_ = state.step;
  }

  ModelState export_state() override {
    ModelState state;
    for (const auto& [buffer, values] : {std::pair(&parameters_, &state.parameters),
                                         std::pair(&first_moments_, &state.first_moments),
                                         std::pair(&second_moments_, &state.second_moments)}) {
      values->resize(static_cast<std::size_t>(spec_.parameters()));
      device_.download(values->data(), buffer->data(), buffer->bytes());
    }
    state.step = updates_;
    return state;
  }

  std::vector<Phase> trace(std::span<const std::uint32_t> order, std::int64_t steps) override {
    require(steps >= 1, "a trace needs steps");
    device_.synchronize();
    const auto kept = running_;
    const auto begin = std::chrono::steady_clock::now();
    train(order, 0, steps);
    device_.synchronize();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    running_ = kept;
    return {{"step", seconds.count() / static_cast<double>(steps)}};
  }

  std::string label() const override { return "program=fused"; }

  double effective_flops() const override {
    double flops = Adam::work({.elements = spec_.parameters()}, Pass::kUpdate).flops;
    const std::vector<Shape> samples = spec_.activations();
    bool below_parameters = true;  // Nothing needs gradients there.
    for (std::size_t i = 0; i < spec_.layers.size(); ++i) {
      if (!spec_.layers[i].has_op()) continue;
      const auto problem = spec_.layers[i].problem(options_.batch, samples[i], options_.seed);
      const std::vector<Pass> passes = problem->passes();
      for (const Pass pass : passes) {
        if (pass == Pass::kBackwardData && below_parameters) continue;
        flops += problem->work(pass).flops;
      }
      if (std::ranges::count(passes, Pass::kBackwardWeights) > 0) below_parameters = false;
    }
    return flops;
  }

 private:
  float* device_floats(const Buffer& buffer) const {
    return device_.floats(buffer.data(), spec_.parameters());
  }

  // 0 .. count - 1.
  std::span<const std::uint32_t> identity(std::int64_t count) {
    while (std::ssize(identity_) < count) {
      identity_.push_back(static_cast<std::uint32_t>(identity_.size()));
    }
    return std::span(identity_).first(static_cast<std::size_t>(count));
  }

  // Leaves the samples in the first and the result of each stage in the next activation.
  void forward(const std::uint8_t* images, const std::uint8_t* labels,
               std::span<const std::uint32_t> samples, bool inference) {
    const auto batch = static_cast<std::int64_t>(samples.size());
    const std::int64_t pixels = spec_.sample.elements();
    activations_.resize(stages_.size() + 1);
    activations_[0].resize(static_cast<std::size_t>(batch * pixels));
    batch_labels_.resize(samples.size());
    for (std::size_t b = 0; b < samples.size(); ++b) {
      batch_labels_[b] = labels[samples[b]];
      const std::uint8_t* image = images + samples[b] * pixels;
      float* x = activations_[0].data() + static_cast<std::int64_t>(b) * pixels;
      for (std::int64_t i = 0; i < pixels; ++i) x[i] = static_cast<float>(image[i]) / 255.0f;
    }
    const float* parameters = device_floats(parameters_);
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      Stage& stage = *stages_[i];
      activations_[i + 1].resize(static_cast<std::size_t>(batch * stage.outputs));
      stage.forward(batch, updates_, inference, parameters, activations_[i].data(),
                    activations_[i + 1].data());
      parameters += stage.weights + stage.biases;
    }
  }

  template_backend::LossResult softmax(std::int32_t* predicted) {
    return template_backend::softmax_forward(std::ssize(batch_labels_), spec_.classes(),
                                             activations_.back().data(), batch_labels_.data(),
                                             activations_.back().data(), predicted);
  }

  void step(std::span<const std::uint32_t> samples) {
    const auto batch = static_cast<std::int64_t>(samples.size());
    forward(static_cast<const std::uint8_t*>(device_.memory(images_.data(), images_.bytes())),
            static_cast<const std::uint8_t*>(device_.memory(labels_.data(), labels_.bytes())),
            samples, false);
    predicted_.resize(samples.size());
    const template_backend::LossResult loss = softmax(predicted_.data());
    running_.push_back({loss.loss, loss.correct, batch});
    backward(batch);
  }

  void backward(std::int64_t batch) {
    slope_.resize(static_cast<std::size_t>(batch * largest_));
    next_slope_.resize(slope_.size());
    template_backend::softmax_backward(batch, spec_.classes(), activations_.back().data(),
                                       batch_labels_.data(), slope_.data());
    std::int64_t offset = spec_.parameters();
    for (std::size_t i = stages_.size(); i-- > 0;) {
      Stage& stage = *stages_[i];
      const std::int64_t count = stage.weights + stage.biases;
      offset -= count;
      gradients_.resize(static_cast<std::size_t>(count));
      stage.backward(batch, updates_, device_floats(parameters_) + offset, activations_[i].data(),
                     activations_[i + 1].data(), slope_.data(), gradients_.data(),
                     i == 0 ? nullptr : next_slope_.data());
      template_backend::adam_update(
          spec_.adam, updates_ + 1, count, gradients_.data(), device_floats(parameters_) + offset,
          device_floats(first_moments_) + offset, device_floats(second_moments_) + offset);
      slope_.swap(next_slope_);
    }
    ++updates_;
  }

  TemplateDevice& device_;
  ModelSpec spec_;
  CompileOptions options_;
  std::vector<std::unique_ptr<Stage>> stages_;
  Buffer parameters_, first_moments_, second_moments_, images_, labels_;
  OrderCheck check_order_;
  std::int64_t count_ = 0, largest_ = 0;  // Training samples; values of the largest activation.
  std::uint32_t updates_ = 0;
  std::vector<StepMetrics> running_, results_;

  // Only of use while work runs.
  std::vector<std::vector<float>> activations_;
  std::vector<float> slope_, next_slope_, gradients_;
  std::vector<std::int32_t> batch_labels_, predicted_;
  std::vector<std::uint32_t> identity_;
};

}  // namespace

std::unique_ptr<Program> make_fused_program(const ModelSpec& spec, const CompileOptions& options,
                                            TemplateDevice& device) {
  return std::make_unique<FusedProgram>(spec, options, device);
}

}  // namespace trainbench::template_fused
