#pragma once

#include <memory>

#include "kernels/core/backend.hpp"
#include "kernels/ops/model_spec.hpp"

namespace trainbench {

// The program of a model on a device: the backend's own where it compiles whole models, else the
// ops of the backend one after the other. Throws Unsupported when an op is missing.
std::unique_ptr<Program> make_program(const Backend& backend, Device& device, const ModelSpec& spec,
                                      const CompileOptions& options);

// The layer-by-layer executor: forward through the layers, loss, backward, one optimizer call over
// the block of all parameters. Everything is planned when compiled and loaded; a step only calls.
std::unique_ptr<Program> make_layerwise_program(OpTable ops, Device& device, const ModelSpec& spec,
                                                const CompileOptions& options);

}  // namespace trainbench
