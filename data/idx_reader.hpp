#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainbench {

// The files of MNIST and its kin: a big-endian header of magic number and dimensions, then one byte
// per element (http://yann.lecun.com/exdb/mnist). Plain or gzip data, told by content.

struct IdxImages {
  std::int64_t count = 0, height = 0, width = 0;
  std::vector<std::uint8_t> pixels;  // count x height x width.
  std::string sha256;                // Of the unpacked file.
};

struct IdxLabels {
  std::vector<std::uint8_t> labels;
  std::string sha256;  // Of the unpacked file.
};

// Both check the whole file before they believe its dimensions, and throw std::runtime_error that
// names the file, what was expected and what was found.
IdxImages read_idx_images(const std::string& path);
IdxLabels read_idx_labels(const std::string& path, std::int64_t classes = 10);

}  // namespace trainbench
