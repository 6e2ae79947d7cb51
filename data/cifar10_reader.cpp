#include "data/cifar10_reader.hpp"

#include <cstddef>

#include "data/file_bytes.hpp"
#include "data/sha256.hpp"

namespace trainbench {

namespace {

constexpr std::size_t kPlane = 32 * 32;
constexpr std::size_t kChannels = 3;
constexpr std::size_t kRecord = 1 + kChannels * kPlane;
constexpr int kClasses = 10;

// Planes one after the other to channels side by side.
void interleave(const std::uint8_t* planes, std::uint8_t* image) {
  for (std::size_t pixel = 0; pixel < kPlane; ++pixel) {
    for (std::size_t channel = 0; channel < kChannels; ++channel) {
      image[pixel * kChannels + channel] = planes[channel * kPlane + pixel];
    }
  }
}

}  // namespace

Cifar10Batch read_cifar10_batch(const std::string& path, std::int64_t records) {
  const FileBytes file = read_file_bytes(path);
  const auto count = static_cast<std::size_t>(records);
  file.check_size(count * kRecord, std::to_string(count) + " records of " +
                                       std::to_string(kRecord) + ": a label and 3x32x32 pixels");
  Cifar10Batch batch;
  batch.images.resize(count * kChannels * kPlane);
  batch.labels.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint8_t* record = file.bytes.data() + i * kRecord;
    if (record[0] >= kClasses) {
      file.reject("label of record " + std::to_string(i) + " is " + std::to_string(record[0]) +
                  ", allowed are 0 to " + std::to_string(kClasses - 1));
    }
    batch.labels[i] = record[0];
    interleave(record + 1, batch.images.data() + i * kChannels * kPlane);
  }
  batch.sha256 = sha256(file.bytes);
  return batch;
}

}  // namespace trainbench
