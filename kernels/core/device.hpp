#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace trainbench {

// A device, or the machine, has no room for a request. Points that end so do not fit: exit
// status 2.
class OutOfMemory : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Times work submitted to one device: the clock on a CPU, events on a GPU.
class Stopwatch {
 public:
  virtual ~Stopwatch() = default;
  virtual void start() = 0;
  virtual void stop() = 0;
  virtual double seconds() = 0;  // Waits for the work to finish.
};

// Memory, copies and completion of one device. Used by one thread at a time.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;
  // Facts for the labels of rows: "key=value;key=value".
  virtual std::string label() const { return ""; }
  // Aligned to kAlignment bytes, contents undefined. Throws OutOfMemory, naming needed bytes.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* data) noexcept = 0;  // Waits for queued work that may use it.
  // Both wait for queued work and for the copy.
  virtual void upload(void* device, const void* host, std::size_t bytes) = 0;
  virtual void download(void* host, const void* device, std::size_t bytes) = 0;
  virtual void synchronize() = 0;  // Waits for queued work; throws what went wrong in it.
  virtual std::unique_ptr<Stopwatch> make_stopwatch() = 0;
  // How long a measurement must last at least for the stopwatch to cost little of it.
  virtual double shortest_measurement() const { return 20e-6; }

  static constexpr std::size_t kAlignment = 64;
};

// The least multiple of Device::kAlignment that holds so many bytes.
constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + Device::kAlignment - 1) / Device::kAlignment * Device::kAlignment;
}

// Owns memory on a device. An empty buffer owns nothing.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Device& device, std::size_t bytes)
      : device_(&device), data_(device.allocate(bytes)), bytes_(bytes) {}
  ~Buffer() { reset(); }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    reset();
    swap(other);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* data() const { return data_; }
  std::byte* at(std::size_t offset) const { return static_cast<std::byte*>(data_) + offset; }
  std::size_t bytes() const { return bytes_; }

 private:
  void reset() noexcept {
    if (data_ != nullptr) device_->release(data_);
    data_ = nullptr;
    bytes_ = 0;
  }
  void swap(Buffer& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

  Device* device_ = nullptr;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace trainbench
