#include "tests/template_backend/device.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <new>
#include <stdexcept>
#include <utility>

namespace trainbench::template_backend {
namespace {

using Clock = std::chrono::steady_clock;

// Takes the time when the queue gets there, as events do.
class QueuedStopwatch final : public Stopwatch {
 public:
  explicit QueuedStopwatch(TemplateDevice& device) : device_(device) {}
  void start() override { record(0); }
  void stop() override { record(1); }
  double seconds() override {
    device_.synchronize();
    return std::chrono::duration<double>((*times_)[1] - (*times_)[0]).count();
  }

 private:
  using Times = std::array<Clock::time_point, 2>;
  void record(std::size_t event) {
    device_.enqueue([times = times_, event] { (*times)[event] = Clock::now(); });
  }

  TemplateDevice& device_;
  std::shared_ptr<Times> times_ = std::make_shared<Times>();
};

}  // namespace

TemplateDevice::~TemplateDevice() {
  for (const auto& [address, block] : blocks_) {
    munmap(const_cast<std::byte*>(address), block.reserved);
  }
}

void* TemplateDevice::allocate(std::size_t bytes) {
  constexpr std::size_t kCapacity = std::size_t{8} << 30;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  if (bytes > kCapacity) {
    throw OutOfMemory(name() + " has no " + std::to_string(bytes) + " bytes; try a smaller batch");
  }
  Block block{.bytes = bytes, .reserved = (bytes / page + 1) * page, .memory = nullptr};
  block.memory = std::make_unique_for_overwrite<std::byte[]>(std::max<std::size_t>(bytes, 1));
  std::memset(block.memory.get(), 0xA5, bytes);  // Undefined contents must not happen to be zeros.
  void* address = mmap(nullptr, block.reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) throw OutOfMemory(name() + " has no addresses left");
  blocks_.emplace(static_cast<const std::byte*>(address), std::move(block));
  return address;
}

// As freeing memory of a GPU does, this waits for work that may use it.
void TemplateDevice::release(void* address) noexcept {
  drain();
  const auto it = blocks_.find(static_cast<const std::byte*>(address));
  if (it == blocks_.end()) std::terminate();
  munmap(address, it->second.reserved);
  blocks_.erase(it);
}

void* TemplateDevice::memory(const void* address, std::size_t bytes) const {
  const auto* wanted = static_cast<const std::byte*>(address);
  auto it = blocks_.upper_bound(wanted);
  if (it != blocks_.begin()) {
    --it;
    const auto offset = static_cast<std::size_t>(wanted - it->first);
    if (offset <= it->second.bytes && bytes <= it->second.bytes - offset) {
      return it->second.memory.get() + offset;
    }
  }
  throw std::logic_error(name() + " has no block with " + std::to_string(bytes) +
                         " bytes at the address it was given");
}

void TemplateDevice::upload(void* address, const void* host, std::size_t bytes) {
  synchronize();
  if (bytes != 0) std::memcpy(memory(address, bytes), host, bytes);
}

void TemplateDevice::download(void* host, const void* address, std::size_t bytes) {
  synchronize();
  if (bytes != 0) std::memcpy(host, memory(address, bytes), bytes);
}

void TemplateDevice::drain() noexcept {
  const std::vector<std::function<void()>> work = std::exchange(queue_, {});
  for (const auto& task : work) {
    if (failure_) return;  // A failed device does nothing more.
    try {
      task();
    } catch (...) {
      failure_ = std::current_exception();
    }
  }
}

void TemplateDevice::synchronize() {
  drain();
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

std::unique_ptr<Stopwatch> TemplateDevice::make_stopwatch() {
  return std::make_unique<QueuedStopwatch>(*this);
}

TemplateDevice& as_template(Device& device) {
  auto* own = dynamic_cast<TemplateDevice*>(&device);
  if (own == nullptr) throw std::logic_error("a template op was given the device " + device.name());
  return *own;
}

}  // namespace trainbench::template_backend
