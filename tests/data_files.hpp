#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace trainbench {

// Files for the tests of data readers.

using Bytes = std::vector<std::uint8_t>;

// A folder of the running test's own, removed at its end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = ::testing::TempDir() + "trainbench_XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp " + pattern);
    path_ = pattern;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string path(const std::string& name = "") const { return (path_ / name).string(); }
  // Writes a file, with the folders above it, and returns its path. `name` is relative.
  std::string write(const std::string& name, const Bytes& bytes) const {
    const std::filesystem::path file = path_ / name;
    if (std::filesystem::path(name).is_absolute()) throw std::invalid_argument(name);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream stream(file, std::ios::binary);
    stream.write(reinterpret_cast<const char*>(bytes.data()),
                 static_cast<std::streamsize>(bytes.size()));
    stream.close();
    if (!stream) throw std::runtime_error("cannot write " + file.string());
    return file.string();
  }
  std::string write(const std::string& name, const std::string& text) const {
    return write(name, Bytes(text.begin(), text.end()));
  }

 private:
  std::filesystem::path path_;
};

inline Bytes gzip(const Bytes& plain) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY) !=
      Z_OK) {
    throw std::runtime_error("deflateInit2");
  }
  Bytes packed(deflateBound(&stream, plain.size()));
  stream.next_in = const_cast<std::uint8_t*>(plain.data());
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = packed.data();
  stream.avail_out = static_cast<uInt>(packed.size());
  const int status = deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  if (status != Z_STREAM_END) throw std::runtime_error("deflate");
  return packed;
}

// An IDX file: magic number and dimensions, big-endian, then the payload.
inline Bytes idx(std::uint32_t magic, const std::vector<std::uint32_t>& dimensions,
                 const Bytes& payload) {
  Bytes bytes;
  const auto add = [&](std::uint32_t word) {
    for (const int shift : {24, 16, 8, 0})
      bytes.push_back(static_cast<std::uint8_t>(word >> shift));
  };
  add(magic);
  for (const std::uint32_t extent : dimensions) add(extent);
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

inline Bytes idx_images(std::uint32_t count, std::uint32_t height, std::uint32_t width,
                        std::uint8_t value = 0) {
  return idx(0x803, {count, height, width}, Bytes(std::size_t{count} * height * width, value));
}

inline Bytes idx_labels(std::uint32_t count) {
  Bytes labels(count);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::uint8_t>(i % 10);
  return idx(0x801, {count}, labels);
}

// What a call throws as std::runtime_error, or "no error".
template <class F>
std::string error_of(F&& call) {
  try {
    call();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace trainbench
