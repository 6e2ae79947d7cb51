#pragma once

namespace trainbench {

// From now on SIGINT and SIGTERM ask the program to stop (kernels/core/stop.hpp), and a second one
// ends it at once. A signal that the parent had ignored, as nohup does, stays ignored.
void stop_on_signals();

}  // namespace trainbench
