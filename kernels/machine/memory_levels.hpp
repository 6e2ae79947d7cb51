#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace trainbench {

// One level of the memory hierarchy, as a set of CPUs sees it.
struct MemoryLevel {
  std::string name;             // "l1", "l2", "l3", ..., "memory".
  double capacity_bytes = 0;    // Of all data caches that the CPUs use; infinite for memory.
  std::size_t working_set = 0;  // Bytes to sweep, over all threads, to measure this level.
};

// The levels from the smallest to memory. Cache sizes come from /sys/devices/system/cpu, else from
// sysconf, which counts no shared caches; a level that neither knows is left out.
std::vector<MemoryLevel> memory_levels(std::span<const int> cpus);

}  // namespace trainbench
