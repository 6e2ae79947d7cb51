#pragma once

#include <span>
#include <string>

namespace trainbench {

// A file that was read: its part in its set ("train-images", "data_batch_1.bin"), and the SHA-256
// of its unpacked content.
struct ReadFile {
  std::string part, sha256;
};

// The published set that all files belong to ("mnist", "fashion_mnist", "cifar10"), or empty when a
// file is of none. Throws std::runtime_error when a known file stands in the place of another, or
// files of two sets are mixed. `folder` is for the message.
std::string recognise(const std::string& folder, std::span<const ReadFile> files);

// The first 12 digits of each checksum, joined by '+'.
std::string short_checksums(std::span<const ReadFile> files);

}  // namespace trainbench
