#pragma once

#include <string>
#include <vector>

#include "kernels/core/host_device.hpp"
#include "kernels/core/op.hpp"

namespace trainbench {

// Bandwidth of one level of the memory hierarchy.
struct MemoryRoof {
  std::string level;          // "l1", "l2", "l3", "memory".
  double capacity_bytes = 0;  // Of all threads together; infinite for memory.
  double bytes_per_second = 0;
};

// What a host can reach at most, measured: the roofs of the roofline model (Williams, Waterman and
// Patterson, 2009).
struct Roofs {
  double fp32_flops = 0;           // Per second, all threads.
  double bf16_flops = 0;           // 0 where the CPU has no bf16 instructions.
  std::vector<MemoryRoof> memory;  // Smallest level first; the last is memory.

  // 0 for a precision that the CPU has no instructions for.
  double flops(Precision precision) const;
  // The roof of the smallest level that holds the working set.
  const MemoryRoof& memory_for(double working_set_bytes) const;
};

// Measures all roofs with the device's threads in about a second; pins the caller meanwhile. Each
// is the best of several runs, and every run's result is checked.
Roofs measure_roofs(HostDevice& device);

}  // namespace trainbench
