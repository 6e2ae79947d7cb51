#include "data/dataset.hpp"

#include <algorithm>
#include <array>
#include <bitset>
#include <filesystem>
#include <future>
#include <optional>
#include <span>
#include <stdexcept>

#include "data/cifar10_reader.hpp"
#include "data/idx_reader.hpp"
#include "data/known_files.hpp"
#include "kernels/core/checks.hpp"

namespace trainbench {

namespace fs = std::filesystem;

DatasetView Dataset::view() const {
  return {.name = name,
          .sample = sample,
          .count = count(),
          .classes = classes,
          .images = images.data(),
          .labels = labels.data()};
}

namespace {

constexpr std::array kIdxParts = {"train-images", "train-labels", "t10k-images", "t10k-labels"};

// The names under which an IDX file is found, in the order they are tried.
std::array<std::string, 4> idx_candidates(const std::string& part) {
  const std::string type = part.ends_with("images") ? "idx3-ubyte" : "idx1-ubyte";
  return {part + "-" + type, part + "." + type, part + "-" + type + ".gz",
          part + "." + type + ".gz"};
}

std::optional<std::string> find_idx(const std::string& folder, const std::string& part) {
  for (const std::string& name : idx_candidates(part)) {
    const fs::path path = fs::path(folder) / name;
    if (fs::is_regular_file(path)) return path.string();
  }
  return std::nullopt;
}

std::string require_idx(const std::string& folder, const std::string& part) {
  const auto path = find_idx(folder, part);
  if (!path) {
    throw std::runtime_error(folder + " lacks " + part + "; tried " + idx_names(part));
  }
  return *path;
}

// One half of a set, named by the caller: `kind` is "train" or "t10k".
Dataset read_idx_half(const std::string& folder, const std::string& kind,
                      std::vector<ReadFile>& files) {
  const std::string images_path = require_idx(folder, kind + "-images");
  const std::string labels_path = require_idx(folder, kind + "-labels");
  IdxImages images = read_idx_images(images_path);
  IdxLabels labels = read_idx_labels(labels_path);
  if (images.count != static_cast<std::int64_t>(labels.labels.size())) {
    throw std::runtime_error(images_path + " holds " + std::to_string(images.count) +
                             " images, but " + labels_path + " holds " +
                             std::to_string(labels.labels.size()) + " labels");
  }
  files = {{kind + "-images", images.sha256}, {kind + "-labels", labels.sha256}};
  return {.name = "",
          .sample = {images.height, images.width, 1},
          .images = std::move(images.pixels),
          .labels = std::move(labels.labels),
          .source = folder,
          .checksum = short_checksums(files)};
}

void append(std::vector<std::uint8_t>& all, const std::vector<std::uint8_t>& part) {
  all.insert(all.end(), part.begin(), part.end());
}

const std::array<std::string, 5> kCifar10Train = {"data_batch_1.bin", "data_batch_2.bin",
                                                  "data_batch_3.bin", "data_batch_4.bin",
                                                  "data_batch_5.bin"};
const std::array<std::string, 1> kCifar10Test = {"test_batch.bin"};

// Several batches of one folder, in order; one task reads each.
Dataset read_cifar10_half(const std::string& folder, std::span<const std::string> names,
                          std::vector<ReadFile>& files) {
  std::vector<std::future<Cifar10Batch>> tasks;
  for (const std::string& name : names) {
    const std::string path = (fs::path(folder) / name).string();
    tasks.push_back(std::async(std::launch::async, [path] { return read_cifar10_batch(path); }));
  }
  Dataset data{.name = "",
               .sample = {32, 32, 3},
               .images = {},
               .labels = {},
               .source = folder,
               .checksum = ""};
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const Cifar10Batch batch = tasks[i].get();
    data.images.reserve(tasks.size() * batch.images.size());
    append(data.images, batch.images);
    append(data.labels, batch.labels);
    files.push_back({names[i], batch.sha256});
  }
  data.checksum = short_checksums(files);
  return data;
}

void set_name(TrainTest& data, const std::string& name) {
  data.train.name = name;
  data.test.name = name;
}

void name_unverified(TrainTest& data, const std::string& base, const std::string& folder) {
  set_name(data, base + "_unverified");
  data.warnings.push_back(folder + ": the checksums are not those of a known set; named " +
                          data.train.name);
}

}  // namespace

std::string idx_names(const std::string& part) {
  std::string text;
  for (const std::string& name : idx_candidates(part)) text += (text.empty() ? "" : ", ") + name;
  return text;
}

bool holds_idx(const std::string& folder) {
  return std::ranges::any_of(kIdxParts,
                             [&](const char* part) { return find_idx(folder, part).has_value(); });
}

bool holds_cifar10(const std::string& folder) {
  const auto there = [&](const std::string& name) {
    return fs::is_regular_file(fs::path(folder) / name);
  };
  return std::ranges::any_of(kCifar10Train, there) || std::ranges::any_of(kCifar10Test, there);
}

TrainTest load_idx(const std::string& folder, const std::string& family) {
  std::vector<ReadFile> files, test_files;
  auto test =
      std::async(std::launch::async, [&] { return read_idx_half(folder, "t10k", test_files); });
  TrainTest data{
      .train = read_idx_half(folder, "train", files), .test = test.get(), .warnings = {}};
  if (data.train.sample != data.test.sample) {
    throw std::runtime_error(folder + ": training images are " + to_string(data.train.sample) +
                             ", test images " + to_string(data.test.sample));
  }
  files.insert(files.end(), test_files.begin(), test_files.end());
  const std::string set = recognise(folder, files);
  if (set.empty()) {
    name_unverified(data, family.empty() ? "idx" : family, folder);
    return data;
  }
  set_name(data, set);
  if (!family.empty() && family != set) {
    data.warnings.push_back(folder + ": the name says " + family + ", but by their checksums the " +
                            "files are " + set);
  }
  return data;
}

TrainTest load_cifar10(const std::string& folder) {
  std::vector<ReadFile> files, test_files;
  auto test = std::async(std::launch::async,
                         [&] { return read_cifar10_half(folder, kCifar10Test, test_files); });
  TrainTest data{
      .train = read_cifar10_half(folder, kCifar10Train, files), .test = test.get(), .warnings = {}};
  files.insert(files.end(), test_files.begin(), test_files.end());
  const std::string set = recognise(folder, files);
  set.empty() ? name_unverified(data, "cifar10", folder) : set_name(data, set);
  return data;
}

Dataset pad_and_repeat(const Dataset& data, const Shape& sample, std::int64_t limit) {
  const std::int64_t height = data.sample[0], width = data.sample[1], channels = sample[2];
  require(data.sample[2] == 1 && height <= sample[0] && width <= sample[1],
          "cannot pad pictures of " + to_string(data.sample) + " to " + to_string(sample));
  const auto count = static_cast<std::size_t>(std::min(limit, data.count()));
  const auto from_elements = static_cast<std::size_t>(data.sample.elements());
  const auto to_elements = static_cast<std::size_t>(sample.elements());
  const auto row = static_cast<std::size_t>(width);
  const auto depth = static_cast<std::size_t>(channels);
  const auto stride = static_cast<std::size_t>(sample[1] * channels);
  const auto corner = static_cast<std::size_t>((sample[0] - height) / 2) * stride +
                      static_cast<std::size_t>((sample[1] - width) / 2) * depth;

  Dataset padded = data;
  padded.name = data.name + "_" + to_string(sample);
  padded.sample = sample;
  padded.labels.resize(count);
  padded.images.assign(count * to_elements, 0);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint8_t* from = data.images.data() + i * from_elements;
    std::uint8_t* to = padded.images.data() + i * to_elements + corner;
    for (std::int64_t y = 0; y < height; ++y, from += row, to += stride) {
      for (std::size_t x = 0; x < row * depth; ++x) to[x] = from[x / depth];
    }
  }
  return padded;
}

std::int64_t classes_in_first(const DatasetView& data, std::int64_t count) {
  std::bitset<256> seen;
  const auto labels = std::span(data.labels, static_cast<std::size_t>(std::min(count, data.count)));
  for (const std::uint8_t label : labels) seen.set(label);
  return static_cast<std::int64_t>(seen.count());
}

}  // namespace trainbench
