#include "kernels/core/thread_team.hpp"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/core/cgroup.hpp"
#include "kernels/core/openmp.hpp"

namespace trainbench {
namespace {

using ::testing::Each;

std::vector<int> calls_per_thread(ThreadTeam& team) {
  std::vector<int> calls(static_cast<std::size_t>(team.size()));
  team.run([&](int thread) { ++calls[static_cast<std::size_t>(thread)]; });
  return calls;
}

// What a library that computes with OpenMP brings, before anybody asks for it.
const void* const openmp_library = dlopen("libgomp.so.1", RTLD_NOW | RTLD_GLOBAL);

bool has_openmp() { return openmp_runtime().parallel != nullptr; }
constexpr const char* kNoOpenMp = "neither a linked library nor libgomp.so.1 is an OpenMP runtime";

using MakeTeam = std::unique_ptr<ThreadTeam> (*)(int threads);

// Every kind of team does the same.
class Teams : public testing::TestWithParam<std::pair<const char*, MakeTeam>> {
 protected:
  void SetUp() override {
    if (std::string(GetParam().first) == "openmp" && !has_openmp()) GTEST_SKIP() << kNoOpenMp;
  }
  static std::unique_ptr<ThreadTeam> make(int threads) { return GetParam().second(threads); }
};

INSTANTIATE_TEST_SUITE_P(
    Kinds, Teams,
    testing::Values(
        std::pair<const char*, MakeTeam>{"spin",
                                         [](int threads) -> std::unique_ptr<ThreadTeam> {
                                           return std::make_unique<SpinTeam>(threads);
                                         }},
        std::pair<const char*, MakeTeam>{"openmp",
                                         [](int threads) -> std::unique_ptr<ThreadTeam> {
                                           return std::make_unique<OpenMpTeam>(threads);
                                         }}),
    [](const auto& tested) { return std::string(tested.param.first); });

TEST_P(Teams, CallEveryThreadOnce) {
  for (const int threads : {1, 2, 3}) {
    const auto owner = make(threads);
    ThreadTeam& team = *owner;
    EXPECT_EQ(team.size(), threads);
    EXPECT_THAT(calls_per_thread(team), Each(1));
  }
}

TEST_P(Teams, MayHaveMoreThreadsThanThereAreCpus) {
  const auto owner = make(static_cast<int>(allowed_cpus().size()) + 5);
  ThreadTeam& team = *owner;
  for (int round = 0; round < 20; ++round) EXPECT_THAT(calls_per_thread(team), Each(1));
}

TEST_P(Teams, ServeManyTasksInARow) {
  const auto owner = make(2);
  ThreadTeam& team = *owner;
  std::vector<std::int64_t> sums(2);
  for (int round = 0; round < 2000; ++round) {
    team.run([&](int thread) { sums[static_cast<std::size_t>(thread)] += round; });
  }
  EXPECT_THAT(sums, Each(1999 * 2000 / 2));
}

TEST_P(Teams, WakeAfterSleep) {
  const auto owner = make(2);
  ThreadTeam& team = *owner;
  for (int round = 0; round < 3; ++round) {
    EXPECT_THAT(calls_per_thread(team), Each(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // Longer than workers spin.
    EXPECT_THAT(calls_per_thread(team), Each(1));
  }
}

TEST_P(Teams, RethrowFromAnyThreadAndGoOn) {
  const auto owner = make(3);
  ThreadTeam& team = *owner;
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

TEST_P(Teams, RethrowOneOfSeveral) {
  const auto owner = make(3);
  ThreadTeam& team = *owner;
  EXPECT_THROW(team.run([](int) { throw std::out_of_range("all"); }), std::out_of_range);
  EXPECT_THAT(calls_per_thread(team), Each(1));
}

TEST_P(Teams, RefuseToBeUsedByTheirOwnTasks) {
  for (const int threads : {1, 2}) {
    const auto owner = make(threads);
    ThreadTeam& team = *owner;
    EXPECT_THROW(team.run([&](int) { team.run([](int) {}); }), std::logic_error);
    EXPECT_THAT(calls_per_thread(team), Each(1));
  }
}

TEST_P(Teams, CoverEachIndexOnce) {
  const auto owner = make(3);
  ThreadTeam& team = *owner;
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

TEST_P(Teams, KeepSmallLoopsOnTheCaller) {
  const auto owner = make(3);
  ThreadTeam& team = *owner;
  const auto caller = std::this_thread::get_id();
  parallel_for(team, 100, 100, [&](std::int64_t begin, std::int64_t end, int) {
    EXPECT_EQ(begin, 0);
    EXPECT_EQ(end, 100);
    EXPECT_EQ(std::this_thread::get_id(), caller);
  });
}

// Moments of dead units decay into denormals, which would slow training down a hundredfold.
TEST_P(Teams, FlushDenormalsInEveryThread) {
  volatile const float tiny = std::numeric_limits<float>::min();
  for (const int threads : {1, 3}) {
    const auto owner = make(threads);
    ThreadTeam& team = *owner;
    std::vector<float> halves(3, 1.0f);
    parallel_for(team, 3, 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) halves[static_cast<std::size_t>(i)] = tiny * 0.5f;
    });
    EXPECT_THAT(halves, Each(0.0f)) << threads << " threads";
  }
  EXPECT_GT(tiny * 0.5f, 0.0f) << "flushing must end with the loop";
}

// Several devices live in one process, each with a team of its own size.
TEST_P(Teams, OfSeveralSizesTakeTurns) {
  const auto two = make(2), one = make(1), four = make(4);
  for (int round = 0; round < 3; ++round) {
    for (ThreadTeam* team : {two.get(), one.get(), four.get()}) {
      EXPECT_THAT(calls_per_thread(*team), Each(1));
    }
  }
}

class OpenMpTeams : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_openmp()) GTEST_SKIP() << kNoOpenMp;
  }
};

// GNU's runtime starts threads where the caller may run.
TEST_F(OpenMpTeams, RunOnAllCpusOfAnUnpinnedCaller) {
  OpenMpTeam team(2);
  const std::vector<int> cpus = allowed_cpus();
  std::vector<std::vector<int>> allowed(2);
  team.run([&](int thread) { allowed[static_cast<std::size_t>(thread)] = allowed_cpus(); });
  if (std::getenv("OMP_PROC_BIND") != nullptr) GTEST_SKIP() << "OMP_PROC_BIND places the threads";
  EXPECT_THAT(allowed, Each(cpus));
}

TEST_F(OpenMpTeams, SetWhatALibraryGets) {
  OpenMpTeam two(2), three(3);
  two.use();
  EXPECT_EQ(openmp_runtime().get_max_threads(), 2);
  three.use();
  EXPECT_EQ(openmp_runtime().get_max_threads(), 3);
}

// A region of fewer threads ends GNU's others; those that a task starts anew serve a library next.
TEST_F(OpenMpTeams, FlushDenormalsAlsoInRegionsOfALibrary) {
  struct Seen {
    volatile float tiny = std::numeric_limits<float>::min();
    std::atomic<int> threads{0}, denormal{0};
  } seen;
  OpenMpTeam four(4), two(2);
  for (ThreadTeam* team : std::initializer_list<ThreadTeam*>{&four, &two, &four}) {
    EXPECT_THAT(calls_per_thread(*team), Each(1));
  }
  const FlushDenormals flush;  // As whoever calls the library does.
  openmp_runtime().parallel(
      [](void* context) {
        Seen& at = *static_cast<Seen*>(context);
        ++at.threads;
        if (at.tiny * 0.5f != 0) ++at.denormal;
      },
      &seen, 4, 0);
  EXPECT_EQ(seen.threads, 4);
  EXPECT_EQ(seen.denormal, 0);
}

// With OMP_DYNAMIC a runtime grants no more threads than there are CPUs.
class DynamicOpenMp : public OpenMpTeams {
 protected:
  void SetUp() override {
    OpenMpTeams::SetUp();
    set_dynamic_ = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_dynamic"));
    ASSERT_EQ(set_dynamic_ != nullptr, has_openmp());
  }
  void TearDown() override {
    if (set_dynamic_ != nullptr) set_dynamic_(0);
  }

  void (*set_dynamic_)(int) = nullptr;
  int too_many_ = static_cast<int>(std::thread::hardware_concurrency()) + 5;
};

TEST_F(DynamicOpenMp, IsRefusedWhereItGrantsFewerThreads) {
  set_dynamic_(1);
  EXPECT_THAT([&] { OpenMpTeam team(too_many_); },
              testing::ThrowsMessage<std::runtime_error>(testing::HasSubstr("OMP_DYNAMIC")));
}

TEST_F(DynamicOpenMp, EveryThreadIsCalledOnceByFewer) {
  OpenMpTeam team(too_many_);
  set_dynamic_(1);
  for (int round = 0; round < 3; ++round) EXPECT_THAT(calls_per_thread(team), Each(1));
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
