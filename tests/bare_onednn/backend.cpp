#include "kernels/core/backend.hpp"

#include "bare_onednn/own_ops.hpp"
#include "kernels/onednn/device.hpp"
#include "kernels/onednn/library.hpp"
#include "onednn/own_ops.hpp"

namespace trainbench::bare_onednn {
namespace {

// Convolutions as oneDNN's own examples call them, to tell what the onednn backend adds.
class BareOnednn final : public Backend {
 public:
  std::string_view name() const override { return "bare_onednn"; }
  bool pins_caller() const override { return false; }
  OpTable ops() const override {
    OpTable ops = own_ops();
    ops.borrow("onednn", onednn::own_ops(), {"reorder"});
    return ops;
  }
  Probe probe() const override {
    return {.available = true,
            .reason = "",
            .version = "oneDNN " + onednn::library().version,
            .context = {}};
  }
  std::unique_ptr<Device> open_device(const DeviceOptions& options) const override {
    return std::make_unique<onednn::OnednnDevice>(options.threads);
  }
};

}  // namespace

std::unique_ptr<Backend> make_backend() { return std::make_unique<BareOnednn>(); }

}  // namespace trainbench::bare_onednn
