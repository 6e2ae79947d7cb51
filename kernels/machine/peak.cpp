#include "kernels/machine/peak.hpp"

#include <cmath>
#include <stdexcept>
#include <string>

#include "kernels/core/checks.hpp"

// The loops are inline assembly because g++ spills accumulators around such loops, which halves the
// result. `.irp` repeats a line for every chain. An xmm register in a clobber list stands for
// the whole vector register.

namespace trainbench {
namespace {

void sse2_fp32(float* x, PeakFactors factors, std::int64_t rounds) {
  asm volatile(
      "movss %[b], %%xmm12\n shufps $0, %%xmm12, %%xmm12\n"
      "movss %[c], %%xmm13\n shufps $0, %%xmm13, %%xmm13\n"
      ".irp i,0,1,2,3,4,5,6,7,8,9,10,11\n movups \\i*16(%[x]), %%xmm\\i\n .endr\n"
      ".p2align 6\n"
      "1:\n"
      ".irp i,0,1,2,3,4,5,6,7,8,9,10,11\n mulps %%xmm12, %%xmm\\i\n .endr\n"
      ".irp i,0,1,2,3,4,5,6,7,8,9,10,11\n addps %%xmm13, %%xmm\\i\n .endr\n"
      "dec %[rounds]\n jnz 1b\n"
      ".irp i,0,1,2,3,4,5,6,7,8,9,10,11\n movups %%xmm\\i, \\i*16(%[x])\n .endr\n"
      : [rounds] "+r"(rounds)
      : [x] "r"(x), [b] "m"(factors.b), [c] "m"(factors.c)
      : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
        "xmm11", "xmm12", "xmm13", "memory", "cc");
}

void avx2_fp32(float* x, PeakFactors factors, std::int64_t rounds) {
  asm volatile(
      "vbroadcastss %[b], %%ymm12\n vbroadcastss %[c], %%ymm13\n"
      ".irp i,0,1,2,3,4,5,6,7,8,9,10,11\n vmovups \\i*32(%[x]), %%ymm\\i\n .endr\n"
      ".p2align 6\n"
      "1:\n"
      ".irp i,0,1,2,3,4,5,6,7,8,9,10,11\n vfmadd213ps %%ymm13, %%ymm12, %%ymm\\i\n .endr\n"
      "dec %[rounds]\n jnz 1b\n"
      ".irp i,0,1,2,3,4,5,6,7,8,9,10,11\n vmovups %%ymm\\i, \\i*32(%[x])\n .endr\n"
      "vzeroupper\n"
      : [rounds] "+r"(rounds)
      : [x] "r"(x), [b] "m"(factors.b), [c] "m"(factors.c)
      : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
        "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "memory", "cc");
}

[[gnu::target("avx512f")]] void avx512_fp32(float* x, PeakFactors factors, std::int64_t rounds) {
  asm volatile(
      "vbroadcastss %[b], %%zmm16\n vbroadcastss %[c], %%zmm17\n"
      ".irp i,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n vmovups \\i*64(%[x]), %%zmm\\i\n .endr\n"
      ".p2align 6\n"
      "1:\n"
      ".irp i,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n vfmadd213ps %%zmm17, %%zmm16, %%zmm\\i\n "
      ".endr\n"
      "dec %[rounds]\n jnz 1b\n"
      ".irp i,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n vmovups %%zmm\\i, \\i*64(%[x])\n .endr\n"
      "vzeroupper\n"
      : [rounds] "+r"(rounds)
      : [x] "r"(x), [b] "m"(factors.b), [c] "m"(factors.c)
      : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
        "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", "memory", "cc");
}

// Factors are truncated to bf16: they must be exact in its 8 significant bits.
[[gnu::target("avx512f")]] void avx512_bf16(float* x, PeakFactors factors, std::int64_t rounds) {
  asm volatile(
      "vpbroadcastw 2+%[b], %%zmm16\n vpbroadcastw 2+%[c], %%zmm17\n"
      ".irp i,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n vmovups \\i*64(%[x]), %%zmm\\i\n .endr\n"
      ".p2align 6\n"
      "1:\n"
      ".irp i,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n vdpbf16ps %%zmm17, %%zmm16, %%zmm\\i\n "
      ".endr\n"
      "dec %[rounds]\n jnz 1b\n"
      ".irp i,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n vmovups %%zmm\\i, \\i*64(%[x])\n .endr\n"
      "vzeroupper\n"
      : [rounds] "+r"(rounds)
      : [x] "r"(x), [b] "m"(factors.b), [c] "m"(factors.c)
      : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
        "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", "memory", "cc");
}

// x b^n + c (b^n - 1) / (b - 1).
double multiply_add_result(double x, PeakFactors factors, std::int64_t rounds) {
  const double b = factors.b, c = factors.c, n = static_cast<double>(rounds);
  if (b == 1) return x + n * c;
  const double power = std::pow(b, n);
  return x * power + c * (power - 1) / (b - 1);
}

double dot_result(double x, PeakFactors factors, std::int64_t rounds) {
  return x + 2.0 * static_cast<double>(rounds) * factors.b * factors.c;
}

PeakKernel kernel(std::string_view isa, Precision precision, int lanes,
                  decltype(PeakKernel::run) run) {
  const bool pairs = precision == Precision::kBf16;  // Two products per lane.
  const int chains = lanes == 16 ? 16 : 12;          // AVX-512 has twice the registers.
  const double flops = chains * lanes * (pairs ? 4.0 : 2.0);
  return {isa, precision, chains, lanes, flops, run, pairs ? dot_result : multiply_add_result};
}

}  // namespace

std::vector<PeakKernel> peak_kernels() {
  std::vector<PeakKernel> kernels = {kernel("sse2", Precision::kFp32, 4, sse2_fp32)};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    kernels.push_back(kernel("avx2", Precision::kFp32, 8, avx2_fp32));
  }
  if (__builtin_cpu_supports("avx512f")) {
    kernels.push_back(kernel("avx512", Precision::kFp32, 16, avx512_fp32));
  }
  if (__builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw")) {
    kernels.push_back(kernel("avx512", Precision::kBf16, 16, avx512_bf16));
  }
  return kernels;
}

Peak::Peak(ThreadTeam& team, const PeakKernel& kernel)
    : team_(team), kernel_(kernel), chains_(static_cast<std::size_t>(team.size())) {
  for (const std::int64_t rounds : {1, 2, 7}) {
    run(rounds, {2, 3});
    check();
  }
}

void Peak::run(std::int64_t rounds, PeakFactors factors) {
  require(rounds >= 1 && rounds < kMaxRounds,
          "a peak kernel cannot run " + std::to_string(rounds) + " rounds exactly");
  rounds_ = rounds;
  factors_ = factors;
  const int values = kernel_.chains * kernel_.lanes;
  team_.run([&](int thread) {
    float* x = chains_[static_cast<std::size_t>(thread)].x;
    for (int i = 0; i < values; ++i) x[i] = start(i);
    kernel_.run(x, factors, rounds);
  });
}

double Peak::flops(std::int64_t rounds) const {
  return kernel_.flops_per_round * static_cast<double>(rounds) * team_.size();
}

void Peak::check() const {
  const int values = kernel_.chains * kernel_.lanes;
  for (std::size_t thread = 0; thread < chains_.size(); ++thread) {
    for (int i = 0; i < values; ++i) {
      const double want = kernel_.result(start(i), factors_, rounds_);
      const double got = chains_[thread].x[i];
      if (got == want) continue;
      throw std::runtime_error("peak kernel " + std::string(kernel_.isa) + " " +
                               std::string(to_string(kernel_.precision)) + ": thread " +
                               std::to_string(thread) + ", lane " + std::to_string(i) + " holds " +
                               std::to_string(got) + " instead of " + std::to_string(want));
    }
  }
}

}  // namespace trainbench
