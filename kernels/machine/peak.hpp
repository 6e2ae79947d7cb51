#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/core/op.hpp"
#include "kernels/core/thread_team.hpp"

namespace trainbench {

// What one chain of a peak kernel repeats: x becomes x * b + c (fp32), or x + b * c + b * c (bf16,
// whose instruction adds two products).
struct PeakFactors {
  float b = 1;
  float c = 1;
};

// A loop of multiply-adds that never leaves the registers: independent chains of whole vectors,
// enough to hide a latency of 4 cycles on 2 pipes (SSE2: of a multiplication and an addition; bf16:
// of 6 cycles).
struct PeakKernel {
  static constexpr int kMaxValues = 16 * 16;  // Of all chains.

  std::string_view isa;  // "sse2", "avx2" (with FMA), "avx512".
  Precision precision;
  int chains;
  int lanes;               // fp32 numbers in a vector.
  double flops_per_round;  // One step of all chains.

  // Takes chains * lanes values through `rounds` >= 1 steps, in place.
  void (*run)(float* x, PeakFactors factors, std::int64_t rounds);
  // The closed form of what becomes of x.
  double (*result)(double x, PeakFactors factors, std::int64_t rounds);
};

// The kernels whose instructions this CPU has, narrowest vectors first.
std::vector<PeakKernel> peak_kernels();

// Runs one peak kernel on all threads of a team at once.
class Peak {
 public:
  // Checks the kernel first, with factors under which every instruction matters.
  Peak(ThreadTeam& team, const PeakKernel& kernel);

  // Rounds of one call must stay below this, so that all sums are exact in fp32.
  static constexpr std::int64_t kMaxRounds = std::int64_t{1} << 22;

  void run(std::int64_t rounds, PeakFactors factors = {});
  double flops(std::int64_t rounds) const;  // Of one call, all threads.
  // Compares what the last call left in all lanes of all threads with the closed form; throws
  // std::runtime_error.
  void check() const;

 private:
  struct alignas(64) Chains {
    float x[PeakKernel::kMaxValues];
  };
  static float start(int index) { return static_cast<float>(index + 1); }

  ThreadTeam& team_;
  PeakKernel kernel_;
  std::vector<Chains> chains_;  // Of each thread.
  std::int64_t rounds_ = 0;     // Of the last call, as are the factors.
  PeakFactors factors_;
};

}  // namespace trainbench
