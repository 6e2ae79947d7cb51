#include "kernels/onednn/library.hpp"

#include <oneapi/dnnl/dnnl.hpp>

namespace trainbench::onednn {
namespace {

std::string threading_name() {
  switch (dnnl_version()->cpu_runtime) {
    case DNNL_RUNTIME_OMP:
      return "openmp";
    case DNNL_RUNTIME_SEQ:
      return "sequential";
    default:  // DPC++ builds compute on TBB's threads, too.
      return "tbb";
  }
}

// The names that ONEDNN_MAX_CPU_ISA takes, in lower case.
std::string isa_name(dnnl::cpu_isa isa) {
  switch (isa) {
    case dnnl::cpu_isa::sse41:
      return "sse41";
    case dnnl::cpu_isa::avx:
      return "avx";
    case dnnl::cpu_isa::avx2:
      return "avx2";
    case dnnl::cpu_isa::avx2_vnni:
      return "avx2_vnni";
    case dnnl::cpu_isa::avx2_vnni_2:
      return "avx2_vnni_2";
    case dnnl::cpu_isa::avx512_core:
      return "avx512_core";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "avx512_core_vnni";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "avx512_core_bf16";
    case dnnl::cpu_isa::avx512_core_fp16:
      return "avx512_core_fp16";
    case dnnl::cpu_isa::avx512_core_amx:
      return "avx512_core_amx";
    case dnnl::cpu_isa::avx512_core_amx_fp16:
      return "avx512_core_amx_fp16";
    default:  // Later versions know more.
      return "isa_" + std::to_string(static_cast<unsigned>(isa));
  }
}

// AVX-512 without its BF16 part emulates the products; AVX2's later parts only convert.
bool multiplies_bf16(dnnl::cpu_isa isa) {
  const auto bits = static_cast<unsigned>(isa);
  const auto needed = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  return (bits & needed) == needed;
}

}  // namespace

Library library() {
  const dnnl_version_t& version = *dnnl_version();
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  return {.version = std::to_string(version.major) + "." + std::to_string(version.minor) + "." +
                     std::to_string(version.patch),
          .commit = version.hash,
          .isa = isa_name(isa),
          .threading = threading_name(),
          .multiplies_bf16 = multiplies_bf16(isa)};
}

}  // namespace trainbench::onednn
