#include "kernels/core/host_backend.hpp"
#include "kernels/onednn/device.hpp"
#include "kernels/onednn/library.hpp"
#include "native/own_ops.hpp"
#include "onednn/own_ops.hpp"

namespace trainbench::onednn {
namespace {

// What oneDNN has, in the forms that its primitives like best; the rest is borrowed.
class OnednnBackend final : public Backend {
 public:
  std::string_view name() const override { return "onednn"; }
  std::vector<Precision> precisions() const override {
    return {Precision::kFp32, Precision::kBf16};
  }
  bool own_layouts() const override { return true; }
  // The library's own threads would inherit the caller's one CPU.
  bool pins_caller() const override { return false; }

  OpTable ops() const override {
    OpTable ops = own_ops();
    ops.borrow("native", native::own_ops(), {"dropout", "softmax_cross_entropy", "adam", "gather"});
    return ops;
  }

  Probe probe() const override {
    const Library found = library();
    Probe probe{
        .available = true,
        .reason = "",
        .version = "oneDNN " + found.version + " (" + found.isa + ", " + found.threading + ")",
        .context = {{"onednn_version", found.version},
                    {"onednn_commit", found.commit},
                    {"onednn_isa", found.isa},
                    {"onednn_threading", found.threading}}};
    if (!found.multiplies_bf16) {
      probe.lacking.emplace_back(
          Precision::kBf16, "oneDNN may use " + found.isa + " here, which does not multiply bf16");
    }
    return probe;
  }

  std::unique_ptr<Device> open_device(const DeviceOptions& options) const override {
    return std::make_unique<OnednnDevice>(options.threads);
  }
};

}  // namespace

std::unique_ptr<Backend> make_backend() { return std::make_unique<OnednnBackend>(); }

}  // namespace trainbench::onednn
