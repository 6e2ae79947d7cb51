#include "harness/run/signals.hpp"

#include <signal.h>
#include <unistd.h>

#include <string_view>

#include "kernels/core/stop.hpp"

namespace trainbench {
namespace {

void on_signal(int number) {
  if (stop_requested()) {
    signal(number, SIG_DFL);
    raise(number);
  }
  constexpr std::string_view kMessage = "\nstopping after this step; once more ends at once\n";
  request_stop();
  // That nobody reads it is no reason to fail.
  [[maybe_unused]] const auto written = write(STDERR_FILENO, kMessage.data(), kMessage.size());
}

}  // namespace

void stop_on_signals() {
  for (const int number : {SIGINT, SIGTERM}) {
    struct sigaction action {};
    sigaction(number, nullptr, &action);
    if (action.sa_handler == SIG_IGN) continue;
    action.sa_handler = on_signal;
    action.sa_flags = 0;
    sigaction(number, &action, nullptr);
  }
}

}  // namespace trainbench
