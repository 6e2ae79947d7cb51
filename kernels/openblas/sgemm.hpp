#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "kernels/core/device.hpp"
#include "kernels/core/thread_team.hpp"

namespace trainbench::openblas {

// What the linked OpenBLAS says about itself.
struct Library {
  std::string version;    // "0.3.21".
  std::string core;       // The kernels it chose for this CPU: "Haswell".
  std::string threading;  // "pthread", "openmp" or "serial".
  std::string config;     // Its own description of its build.
  int max_callers = 1;    // Threads that may call it at the same time.
};
Library library();

// A factor of a product: row-major, `stride` elements from row to row.
struct Factor {
  const float* data;
  std::int64_t stride;
  bool transposed = false;
};

// c (m x n, row-major) = a (m x k) b (k x n), or c += a b with `accumulate`, in the calling thread
// alone. Called within SgemmTeam::parallel_for.
void sgemm(std::int64_t m, std::int64_t n, std::int64_t k, Factor a, Factor b, bool accumulate,
           float* c, std::int64_t c_stride);

// out (columns x rows) = transpose of in (rows x columns).
void transpose(std::int64_t rows, std::int64_t columns, const float* in, float* out);

// Keeps the calls of this thread single-threaded while it lives, whatever OpenBLAS's flavour.
class SingleThreaded {
 public:
  SingleThreaded();
  ~SingleThreaded();
  SingleThreaded(const SingleThreaded&) = delete;
  SingleThreaded& operator=(const SingleThreaded&) = delete;

 private:
  int saved_ = 0;  // The thread's OpenMP setting; 0: not changed.
};

// The part of a device's team whose threads may call OpenBLAS at the same time, each on its own:
// the library's own threads never compute.
class SgemmTeam {
 public:
  explicit SgemmTeam(Device& device);

  int size() const { return size_; }
  // "sgemm", or with what limits the team, for labels.
  std::string describe(const std::string& implementation) const;

  // How many threads share `count` items when each gets `grain` at least.
  std::int64_t parts(std::int64_t count, std::int64_t grain) const {
    return std::clamp<std::int64_t>((count + grain - 1) / grain, 1, size_);
  }

  // Calls body(begin, end, thread) on disjoint ranges that cover 0 .. count - 1, one for each of
  // parts(count, grain) threads from 0 on.
  template <class Body>
  void parallel_for(std::int64_t count, std::int64_t grain, Body&& body) {
    const std::int64_t threads = parts(count, grain);
    trainbench::parallel_for(team_, threads, 1, [&](std::int64_t part, std::int64_t, int thread) {
      const SingleThreaded guard;
      body(count * part / threads, count * (part + 1) / threads, thread);
    });
  }

 private:
  ThreadTeam& team_;
  int size_;
};

}  // namespace trainbench::openblas
