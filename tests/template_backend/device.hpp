#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/core/device.hpp"

namespace trainbench::template_backend {

// A device with an address space and a queue of its own, played on the host. Its addresses cannot
// be read or written: who treats them as host memory is stopped at once. Queued work runs only when
// somebody waits: who forgets to wait sees nothing of it.
class TemplateDevice final : public Device {
 public:
  explicit TemplateDevice(int index) : index_(index) {}
  ~TemplateDevice() override;
  TemplateDevice(const TemplateDevice&) = delete;
  TemplateDevice& operator=(const TemplateDevice&) = delete;

  std::string name() const override { return "template device " + std::to_string(index_); }
  std::string label() const override { return "chip=" + std::to_string(index_); }
  void* allocate(std::size_t bytes) override;
  void release(void* address) noexcept override;
  void upload(void* address, const void* host, std::size_t bytes) override;
  void download(void* host, const void* address, std::size_t bytes) override;
  void synchronize() override;
  std::unique_ptr<Stopwatch> make_stopwatch() override;

  // Work must own what it needs beside device memory: whoever queues it may be gone when it runs.
  void enqueue(std::function<void()> work) { queue_.push_back(std::move(work)); }
  // Forgets all work that has not run yet.
  void abandon() { queue_.clear(); }

  // What stands behind `bytes` bytes at an address, for queued work. Throws std::logic_error when
  // they are not all in one block of this device.
  void* memory(const void* address, std::size_t bytes) const;
  float* floats(const void* address, std::int64_t count) const {
    return static_cast<float*>(memory(address, static_cast<std::size_t>(count) * sizeof(float)));
  }

 private:
  struct Block {
    std::size_t bytes = 0, reserved = 0;  // Asked for, and taken of the address space.
    std::unique_ptr<std::byte[]> memory;
  };

  void drain() noexcept;

  int index_;
  std::map<const std::byte*, Block> blocks_;  // By address.
  std::vector<std::function<void()>> queue_;
  std::exception_ptr failure_;  // Of queued work, until somebody waits.
};

// The device as one of these; throws std::logic_error when it is another.
TemplateDevice& as_template(Device& device);

}  // namespace trainbench::template_backend
