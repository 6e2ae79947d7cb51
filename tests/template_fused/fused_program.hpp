#pragma once

#include <memory>

#include "kernels/core/program.hpp"
#include "kernels/ops/model_spec.hpp"
#include "tests/template_backend/device.hpp"

namespace trainbench::template_fused {

// A model as one function: train() queues a single piece of work that gathers, runs and updates for
// all its steps, as an XLA program or a persistent kernel does. Gradients are never stored: each
// goes into its parameters at once. Throws Unsupported for a layer it does not know.
std::unique_ptr<Program> make_fused_program(const ModelSpec& spec, const CompileOptions& options,
                                            template_backend::TemplateDevice& device);

}  // namespace trainbench::template_fused
