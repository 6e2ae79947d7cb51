#pragma once

#include <memory>

#include "kernels/core/backend.hpp"
#include "kernels/core/host_device.hpp"

namespace trainbench {

// What the CPU backends share: their device is the host's memory and a team of threads.
class HostBackend : public Backend {
 public:
  std::unique_ptr<Device> open_device(const DeviceOptions& options) const override {
    return std::make_unique<HostDevice>(options.threads);
  }
};

}  // namespace trainbench
