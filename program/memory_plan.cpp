#include "program/memory_plan.hpp"

#include <algorithm>
#include <numeric>

#include "kernels/core/device.hpp"

namespace trainbench {

MemoryPlan plan_memory(const std::vector<Lifetime>& lifetimes) {
  const auto padded = [&](std::size_t i) { return aligned(lifetimes[i].bytes); };
  std::vector<std::size_t> by_size(lifetimes.size());
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  std::ranges::stable_sort(by_size, std::greater<>(), padded);

  MemoryPlan plan{.offsets = std::vector<std::size_t>(lifetimes.size()), .bytes = 0};
  std::vector<std::size_t> placed;
  for (const std::size_t i : by_size) {
    std::vector<std::size_t> neighbours;
    for (const std::size_t other : placed) {
      const Lifetime &a = lifetimes[i], &b = lifetimes[other];
      if (a.first <= b.last && b.first <= a.last) neighbours.push_back(other);
    }
    std::ranges::sort(neighbours, {}, [&](std::size_t other) { return plan.offsets[other]; });
    std::size_t offset = 0;
    for (const std::size_t other : neighbours) {
      if (offset + padded(i) <= plan.offsets[other]) break;
      offset = std::max(offset, plan.offsets[other] + padded(other));
    }
    plan.offsets[i] = offset;
    plan.bytes = std::max(plan.bytes, offset + padded(i));
    placed.push_back(i);
  }
  return plan;
}

}  // namespace trainbench
