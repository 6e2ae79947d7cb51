#pragma once

#include <cstddef>
#include <vector>

namespace trainbench {

// A block of memory that is needed from one call of a plan to another, both included.
struct Lifetime {
  std::size_t bytes = 0;
  int first = 0, last = 0;
};

struct MemoryPlan {
  std::vector<std::size_t> offsets;  // One per lifetime, aligned to Device::kAlignment.
  std::size_t bytes = 0;             // Of the whole block.
};

// Places blocks so that those alive at the same time do not overlap: largest first, each at the
// lowest offset where it fits ("greedy by size" of Pisarchyk and Lee, 2020).
MemoryPlan plan_memory(const std::vector<Lifetime>& lifetimes);

}  // namespace trainbench
