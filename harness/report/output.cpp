#include "harness/report/output.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <iostream>
#include <system_error>

namespace trainbench {
namespace {

void flush() {
  std::cout.flush();
  std::fflush(stdout);
}

}  // namespace

void write_all(int descriptor, std::string_view text, const std::string& what) {
  while (!text.empty()) {
    const ssize_t count = ::write(descriptor, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw std::system_error(errno, std::generic_category(), "cannot write " + what);
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

PureStdout::PureStdout(bool enabled) {
  if (!enabled) return;
  flush();
  saved_ = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  if (saved_ >= 0) dup2(STDERR_FILENO, STDOUT_FILENO);
}

void PureStdout::restore() {
  if (saved_ < 0) return;
  flush();
  dup2(saved_, STDOUT_FILENO);
  close(saved_);
  saved_ = -1;
}

void PureStdout::write(std::string_view text) const {
  if (saved_ < 0) flush();
  write_all(saved_ < 0 ? STDOUT_FILENO : saved_, text, "standard output");
}

}  // namespace trainbench
