#pragma once

#include <string>
#include <string_view>

namespace trainbench {

// Writes all of a text to a file descriptor; throws std::system_error, naming `what`.
void write_all(int descriptor, std::string_view text, const std::string& what);

// Keeps standard output to what a machine will read: while it lives, whatever anybody else prints
// there, libraries included, goes to standard error.
class PureStdout {
 public:
  explicit PureStdout(bool enabled);
  ~PureStdout() { restore(); }
  PureStdout(const PureStdout&) = delete;
  PureStdout& operator=(const PureStdout&) = delete;

  // Writes to the true standard output; throws std::system_error when that cannot take it.
  void write(std::string_view text) const;
  void restore();

 private:
  int saved_ = -1;  // The true standard output; -1: nothing was redirected.
};

}  // namespace trainbench
