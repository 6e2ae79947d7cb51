#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace trainbench {

// Flushes denormal results and inputs to zero in the calling thread while it lives. Adam's moments
// of dead units decay into denormals, which are some hundred times slower than other values.
class FlushDenormals {
 public:
  FlushDenormals();
  ~FlushDenormals();
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  unsigned saved_;
};

// The CPUs this process may run on, ascending.
std::vector<int> allowed_cpus();

// min(allowed CPUs, cgroup quota rounded up), at least 1.
int default_threads();

// Lets the calling thread, and threads that it starts, run on these CPUs alone while it lives. Does
// nothing where that is refused.
class RunOn {
 public:
  explicit RunOn(const std::vector<int>& cpus);
  ~RunOn();
  RunOn(const RunOn&) = delete;
  RunOn& operator=(const RunOn&) = delete;

 private:
  std::vector<int> saved_;
};

// Pins the calling thread to the first allowed CPU while it lives, so that it stays beside, never
// on top of, a team's pinned workers; does nothing where that is not wanted.
class PinnedCaller {
 public:
  explicit PinnedCaller(bool wanted = true)
      : on_(wanted ? std::vector<int>{allowed_cpus().front()} : allowed_cpus()) {}

 private:
  RunOn on_;
};

// A fixed team of threads for fork-join loops: the caller and size() - 1 others.
class ThreadTeam {
 public:
  virtual ~ThreadTeam() = default;
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const { return size_; }

  // Calls task(thread) for thread 0 .. size() - 1, once each, denormals flushed; returns when all
  // returned. The caller takes part. Tasks may not wait for each other: a thread may call several.
  // Rethrows the first exception. Throws std::logic_error when called from within a task.
  template <class Task>
  void run(Task&& task) {
    using Plain = std::remove_reference_t<Task>;
    run_erased([](void* context, int thread) { (*static_cast<Plain*>(context))(thread); },
               const_cast<void*>(static_cast<const void*>(std::addressof(task))));
  }

 protected:
  // What fork() hands to the threads; keeps what they throw.
  class Task {
   public:
    using Invoke = void (*)(void* context, int thread);
    Task(Invoke invoke, void* context) : invoke_(invoke), context_(context) {}
    void operator()(int thread) noexcept;
    void rethrow();

   private:
    Invoke invoke_;
    void* context_;
    std::atomic<bool> failed_{false};
    std::exception_ptr failure_;
  };

  // Throws std::invalid_argument for a size below 1.
  explicit ThreadTeam(int size);
  // Calls task(thread) for thread 0 .. size() - 1 and returns when all returned. Only called where
  // size() > 1.
  virtual void fork(Task& task) = 0;

 private:
  void run_erased(Task::Invoke invoke, void* context);

  int size_;
  std::atomic<bool> busy_{false};  // A task runs.
};

// The suite's own threads: pinned workers that spin for some 50 us after their last task and then
// sleep until the next.
class SpinTeam final : public ThreadTeam {
 public:
  // Throws OutOfMemory where the system does not start so many threads.
  explicit SpinTeam(int threads);
  ~SpinTeam() override;

 private:
  void fork(Task& task) override;
  void work(int thread, int cpu);
  void stop();  // Ends the workers.

  alignas(64) std::atomic<std::uint32_t> generation_{0};
  Task* task_ = nullptr;
  alignas(64) std::atomic<int> pending_{0};
  alignas(64) std::atomic<bool> stopping_{false};
  int spins_ = 0;  // Of an idle worker; 0 where the team has more threads than there are CPUs.
  std::vector<std::thread> workers_;
};

// Calls body(begin, end, thread) on disjoint ranges that cover 0 .. count - 1: one contiguous range
// per thread, each at least `grain` long, so that small loops stay on the caller. The flushing of
// denormals holds in every range.
template <class Body>
void parallel_for(ThreadTeam& team, std::int64_t count, std::int64_t grain, Body&& body) {
  if (count <= 0) return;
  const std::int64_t wanted = (count + grain - 1) / std::max<std::int64_t>(grain, 1);
  const std::int64_t parts = std::clamp<std::int64_t>(wanted, 1, team.size());
  if (parts == 1) {
    const FlushDenormals flush;
    body(std::int64_t{0}, count, 0);
    return;
  }
  team.run([&](int thread) {
    if (thread >= parts) return;
    const std::int64_t begin = count * thread / parts;
    const std::int64_t end = count * (thread + 1) / parts;
    if (begin < end) body(begin, end, thread);
  });
}

}  // namespace trainbench
