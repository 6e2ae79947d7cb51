#pragma once

#include <cstddef>

namespace trainbench {

// What the control groups (v2, or the usual mounts of v1) of this process grant, the least of its
// own group and of those above it.

// CPU time, in CPUs: 1.5 for 150 ms in 100 ms; infinite without a quota.
double cgroup_cpu_quota();

// Bytes of memory until the limit; the largest size_t without one.
std::size_t cgroup_memory_left();

}  // namespace trainbench
