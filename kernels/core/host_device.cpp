#include "kernels/core/host_device.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "kernels/core/cgroup.hpp"

namespace trainbench {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

class HostStopwatch final : public Stopwatch {
 public:
  void start() override { start_ = Clock::now(); }
  void stop() override { stop_ = Clock::now(); }
  double seconds() override { return std::chrono::duration<double>(stop_ - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_, stop_;
};

}  // namespace

std::size_t available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  std::size_t kib = 0;
  while (file >> key >> kib >> unit) {
    if (key == "MemAvailable:") return std::min(kib * 1024, cgroup_memory_left());
  }
  return 0;
}

HostDevice::HostDevice(int threads) : team_(std::make_unique<SpinTeam>(threads)) {}

// Linux grants memory that it does not have and kills the process later, so a request is held
// against what is available first. Large blocks are aligned to huge pages, ask for them and get
// them at once.
void* HostDevice::allocate(std::size_t bytes) {
  const std::size_t available = bytes >= kHugePage ? available_memory() : 0;
  const std::size_t alignment = bytes >= kHugePage ? kHugePage : kAlignment;
  const bool too_large = available != 0 && bytes > available;
  const std::size_t rounded =
      (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  void* data = too_large || rounded < bytes ? nullptr : std::aligned_alloc(alignment, rounded);
  if (data == nullptr) {
    throw OutOfMemory("out of host memory: " + std::to_string(bytes) + " bytes needed, " +
                      std::to_string(available_memory()) +
                      " available; try a smaller batch or width");
  }
  if (bytes >= kHugePage) {
    madvise(data, rounded, MADV_HUGEPAGE);
    // The next request is then held against what this one leaves; older kernels refuse. On machines
    // of several memory nodes all pages are those of the caller's.
    madvise(data, rounded, MADV_POPULATE_WRITE);
  }
  return data;
}

void HostDevice::release(void* data) noexcept { std::free(data); }

void HostDevice::upload(void* device, const void* host, std::size_t bytes) {
  if (bytes != 0) std::memcpy(device, host, bytes);
}

void HostDevice::download(void* host, const void* device, std::size_t bytes) {
  if (bytes != 0) std::memcpy(host, device, bytes);
}

std::unique_ptr<Stopwatch> HostDevice::make_stopwatch() {
  return std::make_unique<HostStopwatch>();
}

HostDevice& as_host(Device& device) {
  auto* host = dynamic_cast<HostDevice*>(&device);
  if (host == nullptr) throw std::logic_error("a CPU op was given the device " + device.name());
  return *host;
}

}  // namespace trainbench
