#include "kernels/core/backend.hpp"

#include "template_backend/own_ops.hpp"
#include "tests/template_backend/device.hpp"
#include "tests/template_fused/fused_program.hpp"

namespace trainbench::template_fused {
namespace {

// A backend without ops of its own that compiles whole models.
class TemplateFused final : public Backend {
 public:
  std::string_view name() const override { return "template_fused"; }
  OpTable ops() const override {
    OpTable ops;
    ops.borrow("template_backend", template_backend::own_ops(),
               {"adam", "conv2d", "dense", "dropout", "gather", "max_pool2d", "relu", "reorder",
                "softmax_cross_entropy"});
    return ops;
  }
  bool on_host() const override { return false; }
  Probe probe() const override {
    return {.available = true, .reason = "", .version = "template 1.0", .context = {}};
  }
  std::unique_ptr<Device> open_device(const DeviceOptions& options) const override {
    return std::make_unique<template_backend::TemplateDevice>(options.index);
  }
  bool compiles() const override { return true; }
  std::unique_ptr<Program> compile(const ModelSpec& spec, const CompileOptions& options,
                                   Device& device) const override {
    return make_fused_program(spec, options, template_backend::as_template(device));
  }
};

}  // namespace

std::unique_ptr<Backend> make_backend() { return std::make_unique<TemplateFused>(); }

}  // namespace trainbench::template_fused
