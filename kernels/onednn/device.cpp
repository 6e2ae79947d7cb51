#include "kernels/onednn/device.hpp"

#include <memory>
#include <stdexcept>

#include "kernels/onednn/library.hpp"

namespace trainbench::onednn {

OnednnDevice::OnednnDevice(int threads)
    : HostDevice(std::make_unique<LibraryTeam>(threads)),
      engine_(dnnl::engine::kind::cpu, 0),
      stream_(engine_),
      isa_(library().isa) {}

std::string OnednnDevice::label() const { return "isa=" + isa_ + kThreadsLabel; }

OnednnDevice& as_onednn(Device& device) {
  auto* own = dynamic_cast<OnednnDevice*>(&device);
  if (own == nullptr) throw std::logic_error("a oneDNN op was given the device " + device.name());
  return *own;
}

}  // namespace trainbench::onednn
