#include "kernels/core/backend.hpp"

#include "kernels/core/checks.hpp"
#include "template_backend/own_ops.hpp"
#include "tests/template_backend/device.hpp"

namespace trainbench::template_backend {
namespace {

// The smallest backend that uses every freedom the interfaces give: memory that the host cannot
// reach, work that runs later, two devices, layouts, state and scratch of its own, a precision that
// only some ops have, and one that the machine lacks.
class TemplateBackend final : public Backend {
 public:
  std::string_view name() const override { return "template_backend"; }
  std::vector<Precision> precisions() const override {
    return {Precision::kFp32, Precision::kTf32, Precision::kBf16};
  }
  OpTable ops() const override { return own_ops(); }
  bool on_host() const override { return false; }
  bool own_layouts() const override { return true; }
  int device_count() const override { return 2; }
  Probe probe() const override {
    return {.available = true,
            .reason = "",
            .version = "template 1.0",
            .context = {},
            .lacking = {{Precision::kTf32, "this chip rounds to 8 bits only"}}};
  }
  std::unique_ptr<Device> open_device(const DeviceOptions& options) const override {
    require(options.index >= 0 && options.index < device_count(),
            "template_backend has no device " + std::to_string(options.index));
    return std::make_unique<TemplateDevice>(options.index);
  }
};

}  // namespace

std::unique_ptr<Backend> make_backend() { return std::make_unique<TemplateBackend>(); }

}  // namespace trainbench::template_backend
