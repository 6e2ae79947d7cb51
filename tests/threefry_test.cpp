#include "kernels/core/threefry.hpp"

#include <gtest/gtest.h>

#include <set>

#include "kernels/ops/dropout.hpp"

namespace trainbench {
namespace {

using Words = std::array<std::uint32_t, 2>;

// Known answers of Threefry-2x32 with 20 rounds, from Random123's kat_vectors.
TEST(Threefry, GivesTheKnownAnswers) {
  EXPECT_EQ(threefry::block({0, 0}, {0, 0}), (Words{0x6b200159, 0x99ba4efe}));
  EXPECT_EQ(threefry::block({0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x1cb996fc, 0xbb002be7}));
  EXPECT_EQ(threefry::block({0x13198a2e, 0x03707344}, {0x243f6a88, 0x85a308d3}),
            (Words{0xc4923a9c, 0x483df7a0}));
}

// The mask that every backend must reproduce: key (seed, layer), counter (step from 1, i / 2).
TEST(Threefry, MakesTheMaskOfDropout) {
  const Dropout::Problem problem{.elements = 64, .rate = 0.3, .seed = 11, .layer = 2};
  constexpr std::uint32_t kThreshold = 1288490188;  // floor(0.3 * 2^32).
  for (std::uint32_t i = 0; i < 64; ++i) {
    const Words words = threefry::block({11, 2}, {5, i / 2});
    EXPECT_EQ(Dropout::dropped(problem, 4, i), words[i % 2] < kThreshold) << i;
  }
}

TEST(Threefry, RatesOfZeroAndOneAreExact) {
  EXPECT_EQ(Dropout::threshold(0), 0u);
  EXPECT_EQ(Dropout::threshold(1), std::uint64_t{1} << 32);
  EXPECT_EQ(Dropout::scale(0), 1.0f);
  EXPECT_EQ(Dropout::scale(1), 0.0f);
}

}  // namespace
}  // namespace trainbench
