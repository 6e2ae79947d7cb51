#pragma once

#include <string>

#include "kernels/core/backend.hpp"

namespace trainbench {

// Asks a backend whether it can run here. One that may hang or abort is asked in a child: this
// program spawned again with --probe, which has `seconds` to answer; what became of a child that
// did not is the reason. Never throws for a probe that fails.
Probe probe_backend(const Backend& backend, double seconds);

// The child's side: probes and writes the answer to standard output, then ends the process without
// running destructors of libraries.
[[noreturn]] void answer_probe(const Backend& backend, double seconds);

}  // namespace trainbench
