#pragma once

#include <optional>
#include <string>

#include "kernels/machine/roofs.hpp"

namespace trainbench {

// How close a measured time comes to what the machine allows.
struct RoofShare {
  double percent = 0;    // Of the roof that binds: 100 means nothing is left.
  std::string roof;      // "fma", or the memory level: "l2", "memory".
  bool suspect = false;  // Above 105 %: the time, the count or the roof is wrong.
};

// Which of computing `flops` and moving `bytes` (compulsory, within `working_set` bytes) takes
// longer at best, and its share of `seconds`.
RoofShare roof_share(const Roofs& roofs, Precision precision, double flops, double bytes,
                     double working_set, double seconds);

// The share of computing alone; nothing for a precision whose peak is not known here.
std::optional<RoofShare> flops_share(const Roofs& roofs, Precision precision, double flops,
                                     double seconds);

}  // namespace trainbench
