#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/ops/model_spec.hpp"

namespace trainbench::template_fused {

// One layer of a fused model, over canonical operands in memory that the device can reach.
class Stage {
 public:
  virtual ~Stage() = default;
  std::int64_t inputs = 0, outputs = 0;  // Of one sample.
  std::int64_t weights = 0, biases = 0;  // Parameters, in this order.

  // `updates`: updates made so far. In inference dropout is the identity.
  virtual void forward(std::int64_t batch, std::uint32_t updates, bool inference,
                       const float* parameters, const float* x, float* y) = 0;
  // Writes the gradients of the parameters and, unless dx is null, of the input. May overwrite dy.
  virtual void backward(std::int64_t batch, std::uint32_t updates, const float* parameters,
                        const float* x, const float* y, float* dy, float* gradients, float* dx) = 0;
};

// The stages of a model; layers that only change a shape have none.
std::vector<std::unique_ptr<Stage>> make_stages(const ModelSpec& spec, std::uint32_t seed);

}  // namespace trainbench::template_fused
