#include "tests/template_fused/stages.hpp"

#include <algorithm>
#include <utility>

#include "kernels/ops/conv2d.hpp"
#include "kernels/ops/dense.hpp"
#include "kernels/ops/dropout.hpp"
#include "kernels/ops/max_pool2d.hpp"
#include "kernels/ops/relu.hpp"
#include "tests/template_backend/kernels.hpp"

namespace trainbench::template_fused {
namespace {

using template_backend::Sliding;

// A convolution, or a dense layer as one over images of one pixel.
class ConvStage final : public Stage {
 public:
  ConvStage(const Sliding& sample, bool bias, bool relu) : sliding_(sample), relu_(relu) {
    weights = sample.weights();
    biases = bias ? sample.out : 0;
  }
  void forward(std::int64_t batch, std::uint32_t, bool, const float* parameters, const float* x,
               float* y) override {
    sliding_.batch = batch;
    conv_forward(sliding_, x, parameters, biases > 0 ? parameters + weights : nullptr, y);
    if (relu_) template_backend::relu_forward(sliding_.outputs(), y, y);
  }
  void backward(std::int64_t batch, std::uint32_t, const float* parameters, const float* x,
                const float* y, float* dy, float* gradients, float* dx) override {
    sliding_.batch = batch;
    if (relu_) template_backend::relu_backward(sliding_.outputs(), dy, y, dy);
    conv_backward_weights(sliding_, x, dy, gradients, biases > 0 ? gradients + weights : nullptr);
    if (dx == nullptr) return;
    transposed_.resize(static_cast<std::size_t>(weights));
    conv_backward_data(sliding_, dy, parameters, transposed_.data(), dx);
  }

 private:
  Sliding sliding_;
  bool relu_;
  std::vector<float> transposed_;
};

class PoolStage final : public Stage {
 public:
  explicit PoolStage(const Sliding& sample) : sliding_(sample) {}
  void forward(std::int64_t batch, std::uint32_t, bool inference, const float*, const float* x,
               float* y) override {
    sliding_.batch = batch;
    winners_.resize(std::max(winners_.size(), static_cast<std::size_t>(sliding_.outputs())));
    pool_forward(sliding_, x, y, inference ? nullptr : winners_.data());
  }
  void backward(std::int64_t batch, std::uint32_t, const float*, const float*, const float*,
                float* dy, float*, float* dx) override {
    sliding_.batch = batch;
    if (dx != nullptr) pool_backward(sliding_, winners_.data(), dy, dx);
  }

 private:
  Sliding sliding_;
  std::vector<std::int32_t> winners_;
};

class DropoutStage final : public Stage {
 public:
  explicit DropoutStage(const Dropout::Problem& problem) : problem_(problem) {}
  void forward(std::int64_t batch, std::uint32_t updates, bool inference, const float*,
               const float* x, float* y) override {
    for (std::int64_t i = 0; i < batch * inputs; ++i) {
      y[i] = inference ? x[i] : x[i] * template_backend::dropout_factor(problem_, updates, i);
    }
  }
  void backward(std::int64_t batch, std::uint32_t updates, const float*, const float*, const float*,
                float* dy, float*, float* dx) override {
    if (dx == nullptr) return;
    for (std::int64_t i = 0; i < batch * inputs; ++i) {
      dx[i] = dy[i] * template_backend::dropout_factor(problem_, updates, i);
    }
  }

 private:
  Dropout::Problem problem_;
};

class ReluStage final : public Stage {
 public:
  void forward(std::int64_t batch, std::uint32_t, bool, const float*, const float* x,
               float* y) override {
    template_backend::relu_forward(batch * inputs, x, y);
  }
  void backward(std::int64_t batch, std::uint32_t, const float*, const float*, const float* y,
                float* dy, float*, float* dx) override {
    if (dx != nullptr) template_backend::relu_backward(batch * inputs, dy, y, dx);
  }
};

std::unique_ptr<Stage> make_stage(const OpProblem& problem) {
  if (const auto* p = problem.as<Conv2d>()) {
    const Sliding sample{.batch = 1,
                         .height = p->height,
                         .width = p->width,
                         .in = p->in_channels,
                         .out = p->out_channels,
                         .window = p->window};
    return std::make_unique<ConvStage>(sample, p->bias, false);
  }
  if (const auto* p = problem.as<Dense>()) {
    const Sliding sample{.batch = 1, .in = p->in_features, .out = p->out_features};
    return std::make_unique<ConvStage>(sample, p->bias, p->relu);
  }
  if (const auto* p = problem.as<MaxPool2d>()) {
    return std::make_unique<PoolStage>(Sliding{.batch = 1,
                                               .height = p->height,
                                               .width = p->width,
                                               .in = p->channels,
                                               .out = p->channels,
                                               .window = p->window});
  }
  if (const auto* p = problem.as<Dropout>()) return std::make_unique<DropoutStage>(*p);
  if (problem.as<Relu>() != nullptr) return std::make_unique<ReluStage>();
  throw Unsupported("template_fused knows no " + std::string(problem.op()));
}

}  // namespace

std::vector<std::unique_ptr<Stage>> make_stages(const ModelSpec& spec, std::uint32_t seed) {
  std::vector<std::unique_ptr<Stage>> stages;
  const std::vector<Shape> samples = spec.activations();
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    if (!spec.layers[i].has_op()) continue;
    stages.push_back(make_stage(*spec.layers[i].problem(1, samples[i], seed)));
    stages.back()->inputs = samples[i].elements();
    stages.back()->outputs = samples[i + 1].elements();
  }
  return stages;
}

}  // namespace trainbench::template_fused
