#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainbench {

// The content of a data file, unpacked when the file is gzip data, which its first bytes tell and
// its name does not.
struct FileBytes {
  std::string path;
  std::vector<std::uint8_t> bytes;
  std::string damage;  // Why `bytes` is not all there should be, or not to be trusted; else empty.

  // Throws std::runtime_error: the file, what is wrong with it, and what to do.
  [[noreturn]] void reject(const std::string& what) const;
  // Rejects a file that is damaged or has not exactly `expected` bytes. `header` says where the
  // expectation comes from.
  void check_size(std::uint64_t expected, const std::string& header) const;
};

// Throws std::runtime_error when the file cannot be read, unpacks to more than 2 GiB, or is a web
// page, as failed downloads leave them.
FileBytes read_file_bytes(const std::string& path);

}  // namespace trainbench
