#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/machine/memory_levels.hpp"
#include "kernels/machine/peak.hpp"
#include "kernels/machine/roofs.hpp"
#include "kernels/machine/streams.hpp"

namespace trainbench {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// The factory's kernel of the narrowest vectors: every x86-64 CPU has it.
PeakKernel narrowest_kernel() { return peak_kernels().front(); }

TEST(Peak, EveryKernelOfThisCpuComputesItsClosedForm) {
  SpinTeam team(2);
  for (const PeakKernel& kernel : peak_kernels()) {
    SCOPED_TRACE(std::string(kernel.isa) + " " + std::string(to_string(kernel.precision)));
    Peak peak(team, kernel);
    for (const std::int64_t rounds : {std::int64_t{1}, std::int64_t{3}, Peak::kMaxRounds - 1}) {
      peak.run(rounds);
      EXPECT_NO_THROW(peak.check());
    }
    EXPECT_EQ(peak.flops(10), 2 * 10 * kernel.flops_per_round);
  }
}

// The definition, step by step, as the source of truth for the formulas.
TEST(Peak, ClosedFormsAreTheirRecurrences) {
  for (const PeakKernel& kernel : peak_kernels()) {
    const bool two_products = kernel.precision == Precision::kBf16;
    for (const PeakFactors factors : {PeakFactors{1, 1}, PeakFactors{2, 3}, PeakFactors{-1, 4}}) {
      const double b = factors.b, c = factors.c;
      double x = 5;
      for (std::int64_t rounds = 1; rounds <= 12; ++rounds) {
        x = two_products ? x + b * c + b * c : x * b + c;
        EXPECT_DOUBLE_EQ(kernel.result(5, factors, rounds), x) << kernel.isa << " " << rounds;
      }
    }
  }
}

void skips_everything(float*, PeakFactors, std::int64_t) {}

void skips_a_round(float* x, PeakFactors factors, std::int64_t rounds) {
  if (rounds > 1) narrowest_kernel().run(x, factors, rounds - 1);
}

void skips_the_last_lane(float* x, PeakFactors factors, std::int64_t rounds) {
  const PeakKernel kernel = narrowest_kernel();
  const int last = kernel.chains * kernel.lanes - 1;
  const float before = x[last];
  kernel.run(x, factors, rounds);
  x[last] = before;
}

void skips_multiplications(float* x, PeakFactors factors, std::int64_t rounds) {
  narrowest_kernel().run(x, {1, factors.c}, rounds);
}

void skips_additions(float* x, PeakFactors factors, std::int64_t rounds) {
  narrowest_kernel().run(x, {factors.b, 0}, rounds);
}

TEST(Peak, WrongChainsAreCaught) {
  SpinTeam team(1);
  for (const auto run : {skips_everything, skips_a_round, skips_the_last_lane,
                         skips_multiplications, skips_additions}) {
    PeakKernel kernel = narrowest_kernel();
    kernel.run = run;
    EXPECT_THAT([&] { Peak(team, kernel); }, ThrowsMessage<std::runtime_error>(HasSubstr("lane")));
  }
}

// Sums beyond 2^24 are not exact in fp32, so the check could not tell a wrong one.
TEST(Peak, RefusesInexactRounds) {
  SpinTeam team(1);
  Peak peak(team, narrowest_kernel());
  EXPECT_THROW(peak.run(0), std::invalid_argument);
  EXPECT_THROW(peak.run(Peak::kMaxRounds), std::invalid_argument);
}

struct SweepCase {
  Stream stream;
  Stores stores;
};

class Sweep : public testing::TestWithParam<SweepCase> {};

TEST_P(Sweep, ChecksWhatItDidAndOnlyThat) {
  const auto [stream, stores] = GetParam();
  for (const int threads : {1, 3}) {
    HostDevice device(threads);
    for (const std::size_t working_set :
         {std::size_t{0}, std::size_t{100000}, std::size_t{5000000}}) {
      StreamSweep sweep(device, stream, working_set, stores);
      EXPECT_THAT([&] { sweep.check(); },
                  ThrowsMessage<std::runtime_error>(HasSubstr(std::string(to_string(stream)))))
          << "nothing was swept yet";
      for (const std::int64_t passes : {1, 2, 5}) {
        sweep.run(passes);
        EXPECT_NO_THROW(sweep.check()) << threads << " threads, " << working_set << " bytes";
      }
      EXPECT_GE(sweep.working_set(), 1u);
      if (working_set >= 100000) {
        EXPECT_LE(sweep.working_set(), working_set);
        EXPECT_GE(sweep.working_set(), working_set * 9 / 10);
      }
      EXPECT_GE(sweep.passes_per_call(), 1);
    }
  }
}

TEST_P(Sweep, NoticesOneWrongElement) {
  const auto [stream, stores] = GetParam();
  HostDevice device(2);
  StreamSweep sweep(device, stream, 100000, stores);
  const StreamSweep::Share share = sweep.shares().back();
  sweep.run(2);
  float& victim = stream == Stream::kRead ? share.b[share.count - 1] : share.a[share.count - 1];
  victim += 1;
  if (stream == Stream::kRead) sweep.run(2);  // What it read then is wrong.
  EXPECT_THROW(sweep.check(), std::runtime_error);
}

INSTANTIATE_TEST_SUITE_P(, Sweep,
                         testing::Values(SweepCase{Stream::kRead, Stores::kOrdinary},
                                         SweepCase{Stream::kTriad, Stores::kOrdinary},
                                         SweepCase{Stream::kTriad, Stores::kNonTemporal},
                                         SweepCase{Stream::kCopy, Stores::kOrdinary},
                                         SweepCase{Stream::kCopy, Stores::kNonTemporal}));

TEST(MemoryLevels, GrowFromCacheToMemory) {
  const std::vector<int> cpus = allowed_cpus();
  const std::vector<MemoryLevel> levels = memory_levels(cpus);
  ASSERT_FALSE(levels.empty());
  for (std::size_t i = 0; i + 1 < levels.size(); ++i) {
    EXPECT_GT(levels[i].capacity_bytes, 0) << levels[i].name;
    EXPECT_LE(static_cast<double>(levels[i].working_set), levels[i].capacity_bytes);
    EXPECT_LT(levels[i].working_set, levels[i + 1].working_set);
  }
  EXPECT_EQ(levels.back().name, "memory");
  EXPECT_EQ(levels.back().capacity_bytes, std::numeric_limits<double>::infinity());
}

TEST(MemoryLevels, MoreCpusHaveNoLessCache) {
  const std::vector<int> cpus = allowed_cpus();
  const std::vector<MemoryLevel> one = memory_levels(std::span(cpus).first(1));
  const std::vector<MemoryLevel> all = memory_levels(cpus);
  ASSERT_EQ(one.size(), all.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].name, all[i].name);
    EXPECT_LE(one[i].capacity_bytes, all[i].capacity_bytes);
  }
}

TEST(MemoryLevels, MemoryIsThereWhereNoCacheIsKnown) {
  const std::vector<MemoryLevel> levels = memory_levels({});
  ASSERT_FALSE(levels.empty());
  EXPECT_EQ(levels.back().name, "memory");
  EXPECT_GT(levels.back().working_set, 0u);
}

TEST(Roofs, AreMeasured) {
  HostDevice device(default_threads());
  const Roofs roofs = measure_roofs(device);
  EXPECT_GT(roofs.fp32_flops, 0);
  EXPECT_TRUE(std::isfinite(roofs.fp32_flops));
  EXPECT_GE(roofs.bf16_flops, 0);
  EXPECT_TRUE(std::isfinite(roofs.bf16_flops));
  ASSERT_FALSE(roofs.memory.empty());
  for (const MemoryRoof& roof : roofs.memory) {
    EXPECT_GT(roof.bytes_per_second, 0) << roof.level;
    EXPECT_TRUE(std::isfinite(roof.bytes_per_second)) << roof.level;
  }
  EXPECT_EQ(roofs.memory.back().level, "memory");
  EXPECT_EQ(roofs.flops(Precision::kFp32), roofs.fp32_flops);
  EXPECT_EQ(roofs.flops(Precision::kBf16), roofs.bf16_flops);
  EXPECT_EQ(roofs.flops(Precision::kTf32), 0);
}

TEST(Roofs, TheSmallestLevelThatHoldsTheWorkingSetCounts) {
  const double infinite = std::numeric_limits<double>::infinity();
  const Roofs roofs = {1, 0, {{"l1", 100, 9}, {"l2", 1000, 8}, {"memory", infinite, 7}}};
  EXPECT_EQ(roofs.memory_for(0).level, "l1");
  EXPECT_EQ(roofs.memory_for(100).level, "l1");
  EXPECT_EQ(roofs.memory_for(101).level, "l2");
  EXPECT_EQ(roofs.memory_for(1000).level, "l2");
  EXPECT_EQ(roofs.memory_for(1e15).level, "memory");
  EXPECT_THROW(Roofs().memory_for(1), std::logic_error);
}

}  // namespace
}  // namespace trainbench
