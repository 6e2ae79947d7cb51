#include "harness/run/probe.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "harness/report/output.hpp"
#include "kernels/core/stop.hpp"

namespace trainbench {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

Probe unavailable(const std::string& reason) {
  return {.available = false, .reason = reason, .version = "", .context = {}, .lacking = {}};
}

Probe probe_here(const Backend& backend) {
  try {
    return backend.probe();
  } catch (const std::exception& error) {
    return unavailable(error.what());
  }
}

std::string to_text(const Probe& probe) {
  Json answer;
  answer["available"] = probe.available;
  answer["reason"] = probe.reason;
  answer["version"] = probe.version;
  answer["context"] = probe.context;
  answer["lacking"] = probe.lacking;
  return answer.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Probe from_text(const std::string& text) {
  const Json answer = Json::parse(text);
  Probe probe;
  probe.available = answer.at("available").get<bool>();
  probe.reason = answer.at("reason").get<std::string>();
  probe.version = answer.at("version").get<std::string>();
  probe.context = answer.at("context").get<decltype(probe.context)>();
  probe.lacking = answer.at("lacking").get<decltype(probe.lacking)>();
  return probe;
}

// This program running again, its standard output a pipe. Ends the child when destroyed.
class Child {
 public:
  Child(std::string argument1, std::string argument2) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) {
      throw std::system_error(errno, std::generic_category(), "pipe2");
    }
    output_ = ends[0];
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    std::string program = "trainbench_probe";
    std::array<char*, 4> arguments = {program.data(), argument1.data(), argument2.data(), nullptr};
    const int error =
        posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (error != 0) {
      close(output_);
      throw std::system_error(error, std::generic_category(), "posix_spawn of /proc/self/exe");
    }
  }
  ~Child() {
    close(output_);
    if (!ended_) {
      kill(pid_, SIGKILL);
      waitpid(pid_, &status_, 0);
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // All output until the child closed it; false when that did not happen in time.
  bool read_all(std::string& output, Clock::time_point deadline) const {
    std::array<char, 4096> chunk{};
    while (true) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
      pollfd waiting = {.fd = output_, .events = POLLIN, .revents = 0};
      const int ready = poll(&waiting, 1, static_cast<int>(std::max<std::int64_t>(left, 0)));
      if (ready < 0 && errno == EINTR) check_stop();
      if (ready == 0) return false;
      if (ready < 0) continue;
      const ssize_t count = ::read(output_, chunk.data(), chunk.size());
      if (count == 0) return true;
      if (count > 0) output.append(chunk.data(), static_cast<std::size_t>(count));
    }
  }
  bool wait(Clock::time_point deadline) {
    while (!ended_) {
      check_stop();
      ended_ = waitpid(pid_, &status_, WNOHANG) == pid_;
      if (!ended_ && Clock::now() >= deadline) return false;
      if (!ended_) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
  }
  int status() const { return status_; }

 private:
  int output_ = -1;
  pid_t pid_ = 0;
  int status_ = 0;
  bool ended_ = false;
};

std::string fate(int status) {
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return (signal == SIGABRT ? "aborted" : "crashed") + std::string(" (signal ") +
           std::to_string(signal) + ": " + strsignal(signal) + ")";
  }
  return "exited with status " + std::to_string(WEXITSTATUS(status)) + " without an answer";
}

Probe probe_in_child(const Backend& backend, double seconds) {
  Child child("--probe=" + std::string(backend.name()),
              "--probe_seconds=" + std::to_string(seconds));
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                           std::chrono::duration<double>(seconds));
  std::string output;
  const bool answered = child.read_all(output, deadline) && child.wait(deadline);
  const std::string advice =
      "; run with --probe=" + std::string(backend.name()) + " under a debugger to see where";
  if (!answered) {
    return unavailable("its library or driver hung: no answer in " +
                       std::to_string(std::lround(seconds)) + " s" + advice);
  }
  if (child.status() != 0) {
    return unavailable("its library or driver " + fate(child.status()) + " while probed" + advice);
  }
  try {
    return from_text(output);
  } catch (const std::exception&) {
    return unavailable("its probe ended without an answer" + advice);
  }
}

}  // namespace

Probe probe_backend(const Backend& backend, double seconds) {
  if (!backend.probe_in_child()) return probe_here(backend);
  try {
    return probe_in_child(backend, seconds);
  } catch (const std::system_error& error) {
    return unavailable(std::string("cannot start a probe: ") + error.what());
  }
}

void answer_probe(const Backend& backend, double seconds) {
  // Nobody waits for a child whose parent was killed.
  alarm(static_cast<unsigned>(std::ceil(seconds)) + 1);
  PureStdout standard_output(true);
  standard_output.write(to_text(probe_here(backend)));
  std::_Exit(0);
}

}  // namespace trainbench
