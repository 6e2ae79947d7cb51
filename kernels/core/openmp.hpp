#pragma once

#include "kernels/core/thread_team.hpp"

namespace trainbench {

// The OpenMP runtime that a library has brought into this process, GNU's or LLVM's (Intel's), found
// by name. Compiling with -fopenmp would bring GNU's beside the other: two pools of threads.
// Functions are null without a runtime.
struct OpenMpRuntime {
  int (*get_max_threads)() = nullptr;
  void (*set_num_threads)(int) = nullptr;  // Of parallel regions of the calling thread.
  // What compilers make of `#pragma omp parallel num_threads(threads)`.
  void (*parallel)(void (*body)(void*), void* context, unsigned threads, unsigned flags) = nullptr;
  int (*get_thread_num)() = nullptr;
  int (*get_num_threads)() = nullptr;
  int (*get_proc_bind)() = nullptr;  // 0: threads are not bound to CPUs.
};
const OpenMpRuntime& openmp_runtime();

// Throws std::runtime_error where the runtime binds threads: GNU's has then bound the main thread
// before main(), and all that it starts, other teams included, would share that thread's CPU.
void require_unbound_threads();

// The pool of that runtime as a team, for what shall compute on the same threads as the library:
// two pools in one training step would fight for the CPUs, since idle OpenMP threads spin for
// milliseconds. GNU's runtime starts threads where the caller may run, so the caller is not to be
// pinned.
class OpenMpTeam final : public ThreadTeam {
 public:
  // Starts the threads. Throws std::runtime_error without a runtime, or where it grants fewer, and
  // OutOfMemory where the system does not start so many.
  explicit OpenMpTeam(int threads);

  // Makes size() the number of threads that a library gets when it asks the runtime, in the calling
  // thread; teams of other sizes may have changed it.
  void use() { openmp_runtime().set_num_threads(size()); }

 private:
  void fork(Task& task) override;
};

}  // namespace trainbench
