#pragma once

#include <string>

namespace trainbench::onednn {

// What the linked oneDNN is, and what it may use of this CPU.
struct Library {
  std::string version;           // "3.2.0".
  std::string commit;            // Of its sources.
  std::string isa;               // "avx512_core_bf16"; ONEDNN_MAX_CPU_ISA can lower it.
  std::string threading;         // "openmp", "tbb" or "sequential".
  bool multiplies_bf16 = false;  // By instructions for it, not by emulation.
};
Library library();

}  // namespace trainbench::onednn
