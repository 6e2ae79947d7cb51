#include <hwy/highway.h>

#include "kernels/core/host_backend.hpp"
#include "kernels/native/simd_target.hpp"
#include "native/own_ops.hpp"

namespace trainbench::native {
namespace {

// Our own SIMD kernels, written with Highway: compiled for several instruction sets, of which the
// best that the machine has is chosen at run time.
class NativeBackend final : public HostBackend {
 public:
  std::string_view name() const override { return "native"; }
  OpTable ops() const override { return own_ops(); }
  Probe probe() const override {
    const std::string highway = std::to_string(HWY_MAJOR) + "." + std::to_string(HWY_MINOR) + "." +
                                std::to_string(HWY_PATCH);
    return {.available = true,
            .reason = "",
            .version = "Highway " + highway + ", " + simd_target(),
            .context = {{"native_highway", highway}, {"native_isa", simd_target()}}};
  }
};

}  // namespace

std::unique_ptr<Backend> make_backend() { return std::make_unique<NativeBackend>(); }

}  // namespace trainbench::native
