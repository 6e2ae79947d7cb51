#pragma once

#include <any>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/core/op_table.hpp"
#include "kernels/ops/adam.hpp"

namespace trainbench {

// One layer of a model, as a value. A layer without an op only changes the shape of its sample.
struct LayerSpec {
  std::string name;  // "conv1": unique in its model.
  std::string type;  // Keras's name: "Conv2D", "Flatten".
  std::any config;   // Op::Config, or empty.
  std::function<Shape(const Shape& sample)> output;
  // The op for a batch; null for a layer without an op.
  std::function<std::shared_ptr<const OpProblem>(std::int64_t batch, const Shape& sample,
                                                 std::uint32_t seed)>
      problem;

  bool has_op() const { return static_cast<bool>(problem); }
  template <class Config>
  const Config* config_as() const {
    return std::any_cast<Config>(&config);
  }
};

// A parameter of a model, and its place in the arrays of a ModelState.
struct ModelParameter {
  std::size_t layer = 0;  // Index of its layer.
  std::string name;       // Under its layer's name: "conv1.w".
  Shape shape;
  std::size_t offset = 0;

  std::size_t elements() const { return static_cast<std::size_t>(shape.elements()); }
};

// A network with its loss and optimizer: softmax cross-entropy on integer labels over the last
// layer's outputs, and Adam over all parameters.
struct ModelSpec {
  std::string name;  // "cifar10_cnn".
  Shape sample;      // Of the input: height, width, channels.
  std::vector<LayerSpec> layers;
  Adam::Hyperparameters adam;

  std::int64_t classes() const;  // Outputs of the last layer.
  std::int64_t parameters() const;
  // In the order of ModelState: by layer, each layer's in the order of its forward pass.
  std::vector<ModelParameter> parameter_list() const;
  // Shapes of the samples between the layers: front is `sample`, back the last output.
  std::vector<Shape> activations() const;
};

// A layer computed by `Op`. Dropout layers get their seed from the compile options.
template <LayerOp Op>
LayerSpec layer(std::string name, const typename Op::Config& config) {
  return {.name = std::move(name),
          .type = std::string(Op::kLayerType),
          .config = config,
          .output = [config](const Shape& sample) { return Op::output(config, sample); },
          .problem =
              [config](std::int64_t batch, const Shape& sample, std::uint32_t seed) {
                auto seeded = config;
                if constexpr (requires { seeded.seed; }) seeded.seed = seed;
                return make_problem<Op>(Op::problem(seeded, batch, sample));
              }};
}

// Rearranges a sample into one row; canonical order stays as it is.
LayerSpec flatten(std::string name);

}  // namespace trainbench
