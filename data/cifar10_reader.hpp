#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainbench {

// One file of CIFAR-10's binary version: records of a label and three planes (red, green, blue) of
// 32x32 pixels (https://www.cs.toronto.edu/~kriz/cifar.html). Plain or gzip data, told by content.
struct Cifar10Batch {
  std::vector<std::uint8_t> images;  // Records x 32 x 32 x 3: channels last.
  std::vector<std::uint8_t> labels;
  std::string sha256;  // Of the unpacked file.
};

// Throws std::runtime_error that names the file, what was expected and what was found unless the
// file has exactly `records` records with labels of 0 to 9.
Cifar10Batch read_cifar10_batch(const std::string& path, std::int64_t records = 10000);

}  // namespace trainbench
