#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/core/host_device.hpp"

namespace trainbench {

// Loops over arrays as in the STREAM benchmark (McCalpin, 1995), and one that only reads.
enum class Stream { kRead, kTriad, kCopy };  // sum of b; a = b + s c; a = b.

constexpr std::string_view to_string(Stream stream) {
  switch (stream) {
    case Stream::kRead:
      return "read";
    case Stream::kTriad:
      return "triad";
    case Stream::kCopy:
      return "copy";
  }
  return "?";
}

// How results are stored: non-temporal stores bypass the caches and save reading the lines that are
// about to be overwritten.
enum class Stores { kOrdinary, kNonTemporal };

// Sweeps arrays of fp32 numbers on all threads of a device; each thread has its own.
class StreamSweep {
 public:
  // `working_set` counts all arrays of all threads, in bytes; small ones are rounded up to some
  // hundred bytes per array. Every page is touched by the thread that sweeps it.
  StreamSweep(HostDevice& device, Stream stream, std::size_t working_set,
              Stores stores = Stores::kOrdinary);

  // Sweeps the arrays `passes` times, all threads at once.
  void run(std::int64_t passes);
  // Passes that make a call long against its fork and join.
  std::int64_t passes_per_call() const;
  // What one pass of all threads reads and writes, as the program sees it, in bytes.
  double bytes_per_pass() const;
  std::size_t working_set() const;
  // Compares what the last call read or wrote with what it should have; throws std::runtime_error.
  void check() const;

  // What a thread works on. Unused arrays are null.
  struct Share {
    float* a = nullptr;
    float* b = nullptr;
    float* c = nullptr;
    std::size_t count = 0;        // Elements of each array, a multiple of kBlock.
    float scale = 1;              // s of the triad; changes with every call.
    std::int64_t passes = 0;      // Of the last call.
    std::uint32_t sum = 0;        // Of the bits of b over all passes, modulo 2^32.
    std::size_t first_wrong = 0;  // Index into a; `count` when all are right.
  };
  static constexpr std::size_t kBlock = 128;  // Eight vectors of 16.
  const std::vector<Share>& shares() const { return shares_; }

 private:
  void check_thread(Share& share) const;

  ThreadTeam& team_;
  Stream stream_;
  Stores stores_;
  int arrays_;
  Buffer memory_;
  std::vector<Share> shares_;
};

}  // namespace trainbench
