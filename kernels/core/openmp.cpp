#include "kernels/core/openmp.hpp"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>

#include <atomic>
#include <stdexcept>
#include <string>

#include "kernels/core/device.hpp"

namespace trainbench {
namespace {

template <class Function>
void look_up(const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace

const OpenMpRuntime& openmp_runtime() {
  static const OpenMpRuntime loaded = [] {
    OpenMpRuntime runtime;
    look_up("omp_get_max_threads", runtime.get_max_threads);
    look_up("omp_set_num_threads", runtime.set_num_threads);
    look_up("GOMP_parallel", runtime.parallel);
    look_up("omp_get_thread_num", runtime.get_thread_num);
    look_up("omp_get_num_threads", runtime.get_num_threads);
    look_up("omp_get_proc_bind", runtime.get_proc_bind);
    return runtime;
  }();
  return loaded;
}

void require_unbound_threads() {
  const OpenMpRuntime& runtime = openmp_runtime();
  if (runtime.get_proc_bind == nullptr || runtime.get_proc_bind() == 0) return;
  throw std::runtime_error(
      "OpenMP has bound this program to one CPU before it started; unset OMP_PROC_BIND, OMP_PLACES "
      "and GOMP_CPU_AFFINITY (taskset limits a program to some CPUs)");
}

namespace {

// A runtime that cannot start a thread ends the process; this throws OutOfMemory, when the system
// starts no so many threads or leaves no room for their stacks and heaps, either of which may come
// first.
void require_room(int threads) {
  { const SpinTeam trial(threads); }
  pthread_attr_t attributes;
  std::size_t stack = 0;
  pthread_attr_init(&attributes);
  pthread_attr_getstacksize(&attributes, &stack);
  pthread_attr_destroy(&attributes);
  constexpr std::size_t kHeap = std::size_t{64} << 20;  // What glibc reserves for a thread's.
  const std::size_t bytes = static_cast<std::size_t>(threads) * (stack + kHeap);
  void* trial = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (trial == MAP_FAILED) {
    throw OutOfMemory("the stacks and heaps of " + std::to_string(threads) +
                      " OpenMP threads need " + std::to_string(bytes) +
                      " bytes of address space, more than the limit leaves (ulimit -v); try fewer "
                      "--threads");
  }
  munmap(trial, bytes);
}

}  // namespace

OpenMpTeam::OpenMpTeam(int threads) : ThreadTeam(threads) {
  const OpenMpRuntime& runtime = openmp_runtime();
  if (runtime.set_num_threads == nullptr || runtime.parallel == nullptr ||
      runtime.get_thread_num == nullptr || runtime.get_num_threads == nullptr) {
    throw std::runtime_error(
        "no OpenMP runtime with GOMP_parallel is loaded, so its threads cannot be shared; link a "
        "library that was built with GNU's or LLVM's OpenMP");
  }
  use();
  if (threads == 1) return;
  require_room(threads);
  std::atomic<int> granted{0};
  const FlushDenormals flush;  // New threads take it over, also those of the library's regions.
  runtime.parallel([](void* count) { ++*static_cast<std::atomic<int>*>(count); }, &granted,
                   static_cast<unsigned>(threads), 0);
  if (granted != threads) {
    throw std::runtime_error("OpenMP grants " + std::to_string(granted) + " of " +
                             std::to_string(threads) +
                             " threads; unset OMP_THREAD_LIMIT and OMP_DYNAMIC, or try "
                             "--threads=" +
                             std::to_string(granted));
  }
}

// Where the runtime grants fewer threads than at the start, each takes several turns. After a
// region of fewer threads GNU's starts the others anew, which then serve the library's regions,
// too.
void OpenMpTeam::fork(Task& task) {
  const FlushDenormals flush;  // New threads take it over.
  struct Region {
    Task& task;
    int turns;
  } region{task, size()};
  openmp_runtime().parallel(
      [](void* context) {
        const Region& all = *static_cast<const Region*>(context);
        const int threads = openmp_runtime().get_num_threads();
        for (int i = openmp_runtime().get_thread_num(); i < all.turns; i += threads) all.task(i);
      },
      &region, static_cast<unsigned>(size()), 0);
}

}  // namespace trainbench
