#include "harness/rows/roof_share.hpp"

namespace trainbench {
namespace {

constexpr double kSuspectPercent = 105;

RoofShare share(double best_seconds, const std::string& roof, double seconds) {
  const double percent = 100 * best_seconds / seconds;
  return {.percent = percent, .roof = roof, .suspect = percent > kSuspectPercent};
}

}  // namespace

std::optional<RoofShare> flops_share(const Roofs& roofs, Precision precision, double flops,
                                     double seconds) {
  const double peak = roofs.flops(precision);
  if (peak <= 0) return std::nullopt;
  return share(flops / peak, "fma", seconds);
}

RoofShare roof_share(const Roofs& roofs, Precision precision, double flops, double bytes,
                     double working_set, double seconds) {
  const MemoryRoof& memory = roofs.memory_for(working_set);
  const RoofShare moving = share(bytes / memory.bytes_per_second, memory.level, seconds);
  const auto computing = flops_share(roofs, precision, flops, seconds);
  return computing && computing->percent >= moving.percent ? *computing : moving;
}

}  // namespace trainbench
