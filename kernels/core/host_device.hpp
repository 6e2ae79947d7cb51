#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "kernels/core/device.hpp"
#include "kernels/core/thread_team.hpp"

namespace trainbench {

// Memory that can be had without swapping, in bytes; 0 when unknown.
std::size_t available_memory();

// The host's memory and a team of threads, the suite's own unless another is given. Ops run at
// once: nothing is ever queued.
class HostDevice : public Device {
 public:
  explicit HostDevice(int threads);
  explicit HostDevice(std::unique_ptr<ThreadTeam> team) : team_(std::move(team)) {}

  ThreadTeam& team() { return *team_; }

  std::string name() const override { return "host"; }
  void* allocate(std::size_t bytes) override;
  void release(void* data) noexcept override;
  void upload(void* device, const void* host, std::size_t bytes) override;
  void download(void* host, const void* device, std::size_t bytes) override;
  void synchronize() override {}
  std::unique_ptr<Stopwatch> make_stopwatch() override;

 private:
  std::unique_ptr<ThreadTeam> team_;
};

// The device as a host device; throws std::logic_error when it is another.
HostDevice& as_host(Device& device);

}  // namespace trainbench
