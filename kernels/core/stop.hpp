#pragma once

#include <stdexcept>

namespace trainbench {

// Thrown by long work when the user asked to stop (Ctrl-C).
class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("interrupted") {}
};

// The one piece of global state: whether the user asked to stop. Safe to set in a signal handler.
void request_stop() noexcept;
bool stop_requested() noexcept;

// Throws Interrupted when a stop was requested.
inline void check_stop() {
  if (stop_requested()) throw Interrupted();
}

}  // namespace trainbench
