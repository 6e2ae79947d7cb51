#include "kernels/core/host_backend.hpp"
#include "reference/own_ops.hpp"

namespace trainbench::reference {
namespace {

// Naive loops with double accumulation: the truth. Never optimised, never timed against others.
class ReferenceBackend final : public HostBackend {
 public:
  std::string_view name() const override { return "reference"; }
  OpTable ops() const override { return own_ops(); }
  bool contends() const override { return false; }
  Probe probe() const override {
    return {.available = true, .reason = "", .version = "definitions in double", .context = {}};
  }
};

}  // namespace

std::unique_ptr<Backend> make_backend() { return std::make_unique<ReferenceBackend>(); }

}  // namespace trainbench::reference
