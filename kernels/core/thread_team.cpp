#include "kernels/core/thread_team.hpp"

#include <immintrin.h>
#include <pthread.h>
#include <sched.h>

#include <cmath>
#include <span>
#include <stdexcept>
#include <string>

#include "kernels/core/cgroup.hpp"
#include "kernels/core/checks.hpp"
#include "kernels/core/device.hpp"

namespace trainbench {
namespace {

constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;  // Bits of MXCSR.
constexpr int kIdleSpins = 4000;  // Some 50 us of pause instructions.

bool pin(std::span<const int> cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(static_cast<std::size_t>(cpu), &set);
  return pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0;
}

// Clears a flag at the end of a scope.
class Leave {
 public:
  explicit Leave(std::atomic<bool>& flag) : flag_(flag) {}
  ~Leave() { flag_.store(false, std::memory_order_relaxed); }
  Leave(const Leave&) = delete;
  Leave& operator=(const Leave&) = delete;

 private:
  std::atomic<bool>& flag_;
};

}  // namespace

FlushDenormals::FlushDenormals() : saved_(_mm_getcsr()) {
  _mm_setcsr(saved_ | kFlushToZero | kDenormalsAreZero);
}

FlushDenormals::~FlushDenormals() { _mm_setcsr(saved_); }

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) cpus.push_back(cpu);
    }
  }
  // More CPUs than a cpu_set_t holds: number them.
  if (cpus.empty()) {
    for (unsigned cpu = 0; cpu < std::max(1u, std::thread::hardware_concurrency()); ++cpu) {
      cpus.push_back(static_cast<int>(cpu));
    }
  }
  return cpus;
}

int default_threads() {
  const auto cpus = static_cast<double>(allowed_cpus().size());
  return static_cast<int>(std::max(1.0, std::min(cpus, std::ceil(cgroup_cpu_quota()))));
}

RunOn::RunOn(const std::vector<int>& cpus) : saved_(allowed_cpus()) {
  if (!pin(cpus)) saved_.clear();
}

RunOn::~RunOn() {
  if (!saved_.empty()) pin(saved_);
}

ThreadTeam::ThreadTeam(int size) : size_(size) {
  require(size >= 1, "threads must be at least 1, not " + std::to_string(size));
}

void ThreadTeam::Task::operator()(int thread) noexcept {
  const FlushDenormals flush;
  try {
    invoke_(context_, thread);
  } catch (...) {
    if (!failed_.exchange(true)) failure_ = std::current_exception();
  }
}

void ThreadTeam::Task::rethrow() {
  if (failed_.load()) std::rethrow_exception(failure_);
}

void ThreadTeam::run_erased(Task::Invoke invoke, void* context) {
  if (busy_.exchange(true, std::memory_order_relaxed)) {
    throw std::logic_error("a task of a thread team may not use the team itself");
  }
  const Leave leave(busy_);
  Task task(invoke, context);
  if (size_ == 1) {
    task(0);
  } else {
    fork(task);
  }
  task.rethrow();
}

SpinTeam::SpinTeam(int threads) : ThreadTeam(threads) {
  const std::vector<int> cpus = allowed_cpus();
  const auto available = static_cast<int>(cpus.size());
  spins_ = threads <= available ? kIdleSpins : 0;
  try {
    for (int thread = 1; thread < threads; ++thread) {
      const int cpu = threads <= available ? cpus[static_cast<std::size_t>(thread)] : -1;
      workers_.emplace_back([this, thread, cpu] { work(thread, cpu); });
    }
  } catch (const std::exception& error) {
    const std::size_t started = workers_.size() + 1;
    stop();
    throw OutOfMemory("could not start more than " + std::to_string(started) + " of " +
                      std::to_string(threads) + " threads (" + error.what() +
                      "); try fewer --threads");
  }
}

SpinTeam::~SpinTeam() { stop(); }

void SpinTeam::stop() {
  stopping_.store(true);
  generation_.fetch_add(1);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

void SpinTeam::fork(Task& task) {
  task_ = &task;
  pending_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  task(0);
  for (int spin = 0; pending_.load(std::memory_order_acquire) != 0; ++spin) {
    if (spin < spins_) {
      _mm_pause();
    } else {
      std::this_thread::yield();
    }
  }
}

void SpinTeam::work(int thread, int cpu) {
  // Without a vector: a late worker must not allocate in a step that is steady already.
  if (cpu >= 0) pin({&cpu, 1});
  std::uint32_t seen = 0;
  while (true) {
    for (int spin = 0; spin < spins_ && generation_.load(std::memory_order_acquire) == seen;
         ++spin) {
      _mm_pause();
    }
    generation_.wait(seen, std::memory_order_acquire);  // Returns at once when it has changed.
    ++seen;
    if (stopping_.load()) return;
    (*task_)(thread);
    pending_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace trainbench
