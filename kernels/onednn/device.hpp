#pragma once

#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <utility>

#include "kernels/core/host_device.hpp"
#include "kernels/onednn/threads.hpp"

namespace trainbench::onednn {

// The host's memory and oneDNN's threads. What is borrowed from other backends computes on the same
// threads: two pools in one training step would fight for the CPUs.
class OnednnDevice final : public HostDevice {
 public:
  explicit OnednnDevice(int threads);

  std::string label() const override;

  const dnnl::engine& engine() const { return engine_; }
  dnnl_stream_t stream() const { return stream_.get(); }

  // Calls f() so that the library creates or runs primitives on this device's threads.
  template <class F>
  decltype(auto) with_threads(F&& f) {
    return on_threads(static_cast<LibraryTeam&>(team()), std::forward<F>(f));
  }

 private:
  dnnl::engine engine_;
  dnnl::stream stream_;
  std::string isa_;
};

// The device as one of this backend's; throws std::logic_error when it is another.
OnednnDevice& as_onednn(Device& device);

}  // namespace trainbench::onednn
