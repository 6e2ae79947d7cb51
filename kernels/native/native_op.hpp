#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "kernels/core/host_device.hpp"
#include "kernels/core/op.hpp"

namespace trainbench::native {

// Calls body(begin, end) on disjoint ranges of elements that cover 0 .. count - 1, on one thread
// per `grain` elements at most. Every begin is a multiple of 16, so that threads never write to the
// same cache line of an aligned float array, and only the last range has a ragged tail.
template <class Body>
void parallel_elements(ThreadTeam& team, std::int64_t count, std::int64_t grain, Body&& body) {
  constexpr std::int64_t kLine = 16;
  parallel_for(team, (count + kLine - 1) / kLine, grain / kLine,
               [&](std::int64_t begin, std::int64_t end, int) {
                 body(begin * kLine, std::min(end * kLine, count));
               });
}

}  // namespace trainbench::native
