#include "program/memory_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "kernels/core/device.hpp"

namespace trainbench {
namespace {

bool share_a_call(const Lifetime& a, const Lifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

void expect_sound(const std::vector<Lifetime>& lifetimes, const MemoryPlan& plan) {
  ASSERT_EQ(plan.offsets.size(), lifetimes.size());
  for (std::size_t i = 0; i < lifetimes.size(); ++i) {
    EXPECT_EQ(plan.offsets[i] % Device::kAlignment, 0u);
    EXPECT_LE(plan.offsets[i] + lifetimes[i].bytes, plan.bytes);
    for (std::size_t j = 0; j < i; ++j) {
      if (!share_a_call(lifetimes[i], lifetimes[j])) continue;
      const bool apart = plan.offsets[i] + lifetimes[i].bytes <= plan.offsets[j] ||
                         plan.offsets[j] + lifetimes[j].bytes <= plan.offsets[i];
      EXPECT_TRUE(apart) << i << " and " << j;
    }
  }
}

// What is alive at the call where most is: no plan can do with less.
std::size_t least(const std::vector<Lifetime>& lifetimes, int calls) {
  std::size_t most = 0;
  for (int call = 0; call < calls; ++call) {
    std::size_t alive = 0;
    for (const Lifetime& life : lifetimes) {
      if (life.first <= call && call <= life.last) alive += life.bytes;
    }
    most = std::max(most, alive);
  }
  return most;
}

TEST(MemoryPlan, NeverOverlapsWhatIsAliveTogether) {
  constexpr int kCalls = 30;
  std::mt19937 random(1);
  const auto below = [&random](unsigned limit) { return static_cast<int>(random() % limit); };
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<Lifetime> lifetimes;
    for (int i = below(40); i >= 0; --i) {
      const int first = below(kCalls), last = std::min(first + below(12), kCalls - 1);
      lifetimes.push_back({static_cast<std::size_t>(below(5000)), first, last});
    }
    const MemoryPlan plan = plan_memory(lifetimes);
    expect_sound(lifetimes, plan);
    EXPECT_GE(plan.bytes, least(lifetimes, kCalls));
  }
}

TEST(MemoryPlan, ReusesMemoryInAChain) {
  std::vector<Lifetime> chain;
  for (int i = 0; i < 10; ++i) chain.push_back({1024, i, i + 1});
  EXPECT_EQ(plan_memory(chain).bytes, 2048u);
}

TEST(MemoryPlan, TakesGapsBetweenLargerBlocks) {
  // The third is free again when the fourth, which is as large, begins.
  const std::vector<Lifetime> lifetimes = {{4096, 0, 9}, {2048, 0, 9}, {640, 0, 3}, {640, 4, 9}};
  EXPECT_EQ(plan_memory(lifetimes).bytes, 4096u + 2048u + 640u);
}

TEST(MemoryPlan, MayBeEmpty) { EXPECT_EQ(plan_memory({}).bytes, 0u); }

}  // namespace
}  // namespace trainbench
