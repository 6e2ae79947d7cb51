#include "kernels/core/cgroup.hpp"
#include "kernels/core/thread_team.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <numeric>
#include <stdexcept>

namespace trainbench {
namespace {

using ::testing::Each;

std::vector<int> calls_per_thread(ThreadTeam& team) {
  std::vector<int> calls(static_cast<std::size_t>(team.size()));
  team.run([&](int thread) { ++calls[static_cast<std::size_t>(thread)]; });
  return calls;
}

TEST(ThreadTeam, CallsEveryThreadOnce) {
  for (const int threads : {1, 2, 3}) {
    ThreadTeam team(threads);
    EXPECT_EQ(team.size(), threads);
    EXPECT_THAT(calls_per_thread(team), Each(1));
  }
}

TEST(ThreadTeam, MayHaveMoreThreadsThanThereAreCpus) {
  ThreadTeam team(static_cast<int>(allowed_cpus().size()) + 5);
  for (int round = 0; round < 20; ++round) EXPECT_THAT(calls_per_thread(team), Each(1));
}

TEST(ThreadTeam, ServesManyTasksInARow) {
  ThreadTeam team(2);
  std::vector<std::int64_t> sums(2);
  for (int round = 0; round < 2000; ++round) {
    team.run([&](int thread) { sums[static_cast<std::size_t>(thread)] += round; });
  }
  EXPECT_THAT(sums, Each(1999 * 2000 / 2));
}

TEST(ThreadTeam, WakesAfterSleep) {
  ThreadTeam team(2);
  for (int round = 0; round < 3; ++round) {
    EXPECT_THAT(calls_per_thread(team), Each(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // Longer than workers spin.
    EXPECT_THAT(calls_per_thread(team), Each(1));
    team.rest();
  }
}

TEST(ThreadTeam, RethrowsFromAnyThreadAndGoesOn) {
  ThreadTeam team(3);
  for (int thrower = 0; thrower < 3; ++thrower) {
    const auto task = [thrower](int thread) {
      if (thread == thrower) throw std::runtime_error("thread " + std::to_string(thread));
    };
    try {
      team.run(task);
      ADD_FAILURE() << "nothing thrown by thread " << thrower;
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(error.what(), "thread " + std::to_string(thrower));
    }
    EXPECT_THAT(calls_per_thread(team), Each(1));
  }
}

TEST(ThreadTeam, RethrowsOneOfSeveral) {
  ThreadTeam team(3);
  EXPECT_THROW(team.run([](int) { throw std::out_of_range("all"); }), std::out_of_range);
  EXPECT_THAT(calls_per_thread(team), Each(1));
}

TEST(ThreadTeam, RefusesToBeUsedByItsOwnTasks) {
  for (const int threads : {1, 2}) {
    ThreadTeam team(threads);
    EXPECT_THROW(team.run([&](int) { team.run([](int) {}); }), std::logic_error);
    EXPECT_THAT(calls_per_thread(team), Each(1));
  }
}

TEST(ParallelFor, CoversEachIndexOnce) {
  ThreadTeam team(3);
  for (const std::int64_t count : {0, 1, 2, 3, 7, 1000}) {
    for (const std::int64_t grain : {0, 1, 5, 10000}) {
      std::vector<int> seen(static_cast<std::size_t>(count));
      parallel_for(team, count, grain, [&](std::int64_t begin, std::int64_t end, int thread) {
        EXPECT_LT(begin, end);
        EXPECT_TRUE(thread >= 0 && thread < 3);
        for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
      });
      EXPECT_THAT(seen, Each(1)) << count << " by " << grain;
    }
  }
}

TEST(ParallelFor, KeepsSmallLoopsOnTheCaller) {
  ThreadTeam team(3);
  const auto caller = std::this_thread::get_id();
  parallel_for(team, 100, 100, [&](std::int64_t begin, std::int64_t end, int) {
    EXPECT_EQ(begin, 0);
    EXPECT_EQ(end, 100);
    EXPECT_EQ(std::this_thread::get_id(), caller);
  });
}

// Moments of dead units decay into denormals, which would slow training down a hundredfold.
TEST(ParallelFor, FlushesDenormalsInEveryThread) {
  volatile const float tiny = std::numeric_limits<float>::min();
  for (const int threads : {1, 3}) {
    ThreadTeam team(threads);
    std::vector<float> halves(3, 1.0f);
    parallel_for(team, 3, 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) halves[static_cast<std::size_t>(i)] = tiny * 0.5f;
    });
    EXPECT_THAT(halves, Each(0.0f)) << threads << " threads";
  }
  EXPECT_GT(tiny * 0.5f, 0.0f) << "flushing must end with the loop";
}

TEST(Threads, DefaultsFitTheMachine) {
  EXPECT_GE(default_threads(), 1);
  EXPECT_LE(default_threads(), static_cast<int>(allowed_cpus().size()));
  EXPECT_GT(cgroup_cpu_quota(), 0);
}

TEST(PinnedCaller, GivesTheCpusBack) {
  const std::vector<int> before = allowed_cpus();
  {
    const PinnedCaller pinned;
    EXPECT_LE(allowed_cpus().size(), before.size());
  }
  EXPECT_EQ(allowed_cpus(), before);
}

}  // namespace
}  // namespace trainbench
