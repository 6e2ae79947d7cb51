#include "harness/roof_share.hpp"

namespace trainbench {

RoofShare roof_share(const Roofs& roofs, Precision precision, double flops, double bytes,
                     double working_set, double seconds) {
  constexpr double kSuspectPercent = 105;
  const MemoryRoof& memory = roofs.memory_for(working_set);
  const double peak = roofs.flops(precision);
  const double compute_seconds = peak > 0 ? flops / peak : 0;
  const double memory_seconds = bytes / memory.bytes_per_second;
  const bool computes = compute_seconds >= memory_seconds;
  const double percent = 100 * (computes ? compute_seconds : memory_seconds) / seconds;
  return {.percent = percent,
          .roof = computes ? "fma" : memory.level,
          .suspect = percent > kSuspectPercent};
}

}  // namespace trainbench
