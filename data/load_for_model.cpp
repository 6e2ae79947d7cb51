#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>
#include <stdexcept>

#include "data/dataset.hpp"
#include "data/synthetic.hpp"

namespace trainbench {

namespace fs = std::filesystem;

namespace {

// A folder, relative to a data_dir, where a set may be, and what its name promises.
struct Place {
  std::string folder, family;
};

// Also covers a data_dir that is itself one of the folders.
const std::vector<Place>& idx_places() {
  static const std::vector<Place> kPlaces = {{"mnist", "mnist"},
                                             {"MNIST/raw", "mnist"},
                                             {"MNIST", "mnist"},
                                             {"fashion-mnist", "fashion_mnist"},
                                             {"fashion_mnist", "fashion_mnist"},
                                             {"FashionMNIST/raw", "fashion_mnist"},
                                             {"FashionMNIST", "fashion_mnist"},
                                             {"raw", ""},
                                             {"", ""}};
  return kPlaces;
}

const std::vector<Place>& cifar10_places() {
  static const std::vector<Place> kPlaces = {
      {"cifar-10-batches-bin", "cifar10"}, {"cifar10", "cifar10"}, {"", "cifar10"}};
  return kPlaces;
}

std::string folder_at(const std::string& data_dir, const Place& place) {
  return place.folder.empty() ? data_dir : (fs::path(data_dir) / place.folder).string();
}

// The family that the last parts of a path promise: "mnist" for ".../MNIST/raw".
std::string family_of(const std::string& data_dir) {
  const fs::path path = fs::weakly_canonical(data_dir);
  for (const Place& place : idx_places()) {
    const fs::path tail(place.folder);
    const fs::path end =
        tail.has_parent_path() ? path.parent_path().filename() / path.filename() : path.filename();
    if (!place.family.empty() && end == tail) return place.family;
  }
  return "";
}

// Places in data_dir that hold IDX files, with complete paths.
std::vector<Place> find_idx_sets(const std::string& data_dir) {
  std::vector<Place> found;
  for (const Place& place : idx_places()) {
    const std::string folder = folder_at(data_dir, place);
    if (!holds_idx(folder)) continue;
    found.push_back({folder, place.family.empty() ? family_of(folder) : place.family});
  }
  return found;
}

std::optional<std::string> find_cifar10(const std::string& data_dir) {
  for (const Place& place : cifar10_places()) {
    const std::string folder = folder_at(data_dir, place);
    if (holds_cifar10(folder)) return folder;
  }
  return std::nullopt;
}

std::string places_text(const std::vector<Place>& places) {
  std::string text;
  for (const Place& place : places) {
    text += (text.empty() ? "" : ", ") + (place.folder.empty() ? "itself" : place.folder);
  }
  return text;
}

// What an explicit data_dir holds; throws unless that is something.
struct Found {
  std::vector<Place> idx;
  std::optional<std::string> cifar10;
};

Found search(const std::string& data_dir) {
  if (data_dir.empty()) return {};
  if (!fs::is_directory(data_dir)) {
    throw std::runtime_error("data_dir " + data_dir + " is no folder");
  }
  Found found{find_idx_sets(data_dir), find_cifar10(data_dir)};
  if (found.idx.empty() && !found.cifar10) {
    throw std::runtime_error(
        "data_dir " + data_dir + " holds none of MNIST, Fashion-MNIST and CIFAR-10. Tried " +
        idx_names("train-images") + " (and so on) in its folders " + places_text(idx_places()) +
        "; and data_batch_1.bin in its folders " + places_text(cifar10_places()) +
        ". `tools/fetch_data all --data_dir " + data_dir + "` fetches them.");
  }
  return found;
}

constexpr Shape kMnistSample{28, 28, 1};
constexpr Shape kCifar10Sample{32, 32, 3};
constexpr std::int64_t kCifar10TrainCount = 50000;  // An epoch is then as long as on CIFAR-10.
constexpr std::int64_t kMnistTrainCount = 60000;
constexpr std::int64_t kTestCount = 10000;

TrainTest load_synthetic(const Shape& sample, std::int64_t classes) {
  constexpr std::uint32_t kSeed = 1;
  const std::int64_t train = sample == kMnistSample ? kMnistTrainCount : kCifar10TrainCount;
  return {.train = synthetic(sample, classes, train, kSeed),
          .test = synthetic(sample, classes, kTestCount, kSeed, train),
          .warnings = {"no real pictures of " + to_string(sample) +
                       " found: synthetic ones are used. Install Debian's dataset-fashion-mnist, "
                       "or fetch data with tools/fetch_data and point --data_dir at them"}};
}

TrainTest load_28x28x1(const Found& found, const std::string& system_dir) {
  if (!found.idx.empty()) {
    TrainTest data = load_idx(found.idx.front().folder, found.idx.front().family);
    if (data.train.sample != kMnistSample) {
      throw std::runtime_error(found.idx.front().folder + " holds pictures of " +
                               to_string(data.train.sample) + "; the model needs " +
                               to_string(kMnistSample));
    }
    return data;
  }
  if (holds_idx(system_dir)) return load_idx(system_dir, "fashion_mnist");
  return load_synthetic(kMnistSample, 10);
}

TrainTest load_32x32x3(const Found& found, const std::string& system_dir) {
  if (found.cifar10) return load_cifar10(*found.cifar10);
  const auto fashion = std::ranges::find(found.idx, "fashion_mnist", &Place::family);
  const std::string folder = fashion != found.idx.end() ? fashion->folder : system_dir;
  if (!holds_idx(folder)) return load_synthetic(kCifar10Sample, 10);
  const TrainTest pictures = load_idx(folder, "fashion_mnist");
  return {.train = pad_and_repeat(pictures.train, kCifar10Sample, kCifar10TrainCount),
          .test = pad_and_repeat(pictures.test, kCifar10Sample, kTestCount),
          .warnings = pictures.warnings};
}

}  // namespace

TrainTest load_for_model(const ModelSpec& spec, const std::string& data_dir,
                         const std::string& system_fashion_mnist) {
  const Found found = search(data_dir);
  const bool idx = spec.sample == kMnistSample, cifar10 = spec.sample == kCifar10Sample;
  TrainTest data = idx       ? load_28x28x1(found, system_fashion_mnist)
                   : cifar10 ? load_32x32x3(found, system_fashion_mnist)
                             : load_synthetic(spec.sample, spec.classes());
  const bool served = (idx && !found.idx.empty()) || (cifar10 && found.cifar10);
  if (!data_dir.empty() && !served) {
    data.warnings.push_back("data_dir " + data_dir + " has no pictures of " +
                            to_string(spec.sample) + " for " + spec.name + ": " + data.train.name +
                            " is used (" + data.train.source + ")");
  }
  for (const std::string& warning : data.warnings) std::cerr << "warning: " << warning << "\n";
  return data;
}

}  // namespace trainbench
