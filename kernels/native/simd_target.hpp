#pragma once

#include <string>

namespace trainbench::native {

// The instruction set that Highway dispatches to on this machine: "AVX3" (AVX-512), "AVX2".
std::string simd_target();

// Name of the kernels of this backend, for labels: "simd:AVX2".
inline std::string simd_implementation() { return "simd:" + simd_target(); }

}  // namespace trainbench::native
