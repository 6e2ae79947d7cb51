#pragma once

#include <oneapi/dnnl/dnnl_config.h>

#include <utility>

#include "kernels/core/thread_team.hpp"
#if DNNL_CPU_THREADING_RUNTIME == DNNL_RUNTIME_OMP
#include "kernels/core/openmp.hpp"
#elif DNNL_CPU_THREADING_RUNTIME == DNNL_RUNTIME_TBB
#include <tbb/parallel_for.h>
#include <tbb/partitioner.h>
#include <tbb/task_arena.h>
#elif DNNL_CPU_THREADING_RUNTIME != DNNL_RUNTIME_SEQ
#error "oneDNN must compute on OpenMP, on TBB or in the calling thread"
#endif

// The threads that the linked oneDNN computes on, as a team: LibraryTeam(threads). on_threads(team,
// f) calls f() so that the library creates or runs primitives on that team, denormals flushed.
namespace trainbench::onednn {

#if DNNL_CPU_THREADING_RUNTIME == DNNL_RUNTIME_OMP

using LibraryTeam = OpenMpTeam;
inline constexpr const char* kThreadsLabel = "";

template <class F>
decltype(auto) on_threads(LibraryTeam& team, F&& f) {
  team.use();
  const FlushDenormals flush;
  return std::forward<F>(f)();
}

#elif DNNL_CPU_THREADING_RUNTIME == DNNL_RUNTIME_TBB

// An arena of TBB's. Its threads take over how its creator handles denormals.
class LibraryTeam final : public ThreadTeam {
 public:
  explicit LibraryTeam(int threads) : ThreadTeam(threads) {
    const FlushDenormals flush;
    arena_.initialize(threads);
  }
  tbb::task_arena& arena() { return arena_; }

 private:
  void fork(Task& task) override {
    arena_.execute([&] {
      tbb::parallel_for(
          0, size(), [&](int thread) { task(thread); }, tbb::static_partitioner());
    });
  }

  tbb::task_arena arena_;
};
inline constexpr const char* kThreadsLabel = "";

template <class F>
decltype(auto) on_threads(LibraryTeam& team, F&& f) {
  const FlushDenormals flush;
  return team.arena().execute(std::forward<F>(f));
}

#else

using LibraryTeam = SpinTeam;
inline constexpr const char* kThreadsLabel = ";library_threads=1";

template <class F>
decltype(auto) on_threads(LibraryTeam&, F&& f) {
  const FlushDenormals flush;
  return std::forward<F>(f)();
}

#endif

}  // namespace trainbench::onednn
