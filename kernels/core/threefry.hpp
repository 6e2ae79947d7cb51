#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace trainbench {

// Threefry-2x32 with 20 rounds, the counter-based generator of Salmon, Moraes, Dror and Shaw,
// "Parallel random numbers: as easy as 1, 2, 3" (SC11), as in Random123 and JAX: 32-bit adds,
// rotates and xors only, so every backend produces the same bits.
namespace threefry {

constexpr std::array<int, 8> kRotations = {13, 15, 26, 6, 17, 29, 16, 24};
constexpr std::uint32_t kParity = 0x1BD11BDA;
constexpr int kRounds = 20;

constexpr std::array<std::uint32_t, 2> block(std::array<std::uint32_t, 2> key,
                                             std::array<std::uint32_t, 2> counter) {
  const std::array<std::uint32_t, 3> schedule = {key[0], key[1], kParity ^ key[0] ^ key[1]};
  std::uint32_t x = counter[0] + schedule[0], y = counter[1] + schedule[1];
  for (int round = 0; round < kRounds; ++round) {
    x += y;
    y = std::rotl(y, kRotations[static_cast<std::size_t>(round % 8)]) ^ x;
    if (round % 4 == 3) {
      const auto injection = static_cast<std::uint32_t>(round / 4 + 1);
      x += schedule[injection % 3];
      y += schedule[(injection + 1) % 3] + injection;
    }
  }
  return {x, y};
}

}  // namespace threefry
}  // namespace trainbench
