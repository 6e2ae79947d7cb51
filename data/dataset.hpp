#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/core/dataset_view.hpp"
#include "kernels/ops/model_spec.hpp"

namespace trainbench {

// Labelled pictures in host memory.
struct Dataset {
  // "mnist", "fashion_mnist", "cifar10": what the checksums of the files say. Files that no
  // checksum knows make a set whose name ends in "_unverified".
  std::string name;
  Shape sample;  // Height, width, channels.
  std::int64_t classes = 10;
  std::vector<std::uint8_t> images;  // Count x height x width x channels.
  std::vector<std::uint8_t> labels;  // Count, each below `classes`.
  std::string source;                // Folder or generator.
  std::string checksum;  // First digits of the SHA-256 of each unpacked file, joined by '+'.

  std::int64_t count() const { return static_cast<std::int64_t>(labels.size()); }
  DatasetView view() const;  // Valid while this set lives unchanged.
};

struct TrainTest {
  Dataset train, test;
  std::vector<std::string> warnings;  // What somebody who reads the results should know.
};

// The file names under which part "train-images", "train-labels", "t10k-images" or "t10k-labels" of
// an IDX set is found, in the order they are tried, joined by commas.
std::string idx_names(const std::string& part);

// Whether a folder has any file of such a set.
bool holds_idx(const std::string& folder);
bool holds_cifar10(const std::string& folder);

// Reads the four IDX files of a folder. `family` is what the folder's name promises ("mnist",
// "fashion_mnist", or empty): content of the other set is named by its checksum, with a warning.
// Throws std::runtime_error for a missing or unsound file, for sets that do not fit together, and
// for files of different known sets.
TrainTest load_idx(const std::string& folder, const std::string& family = "");

// Reads data_batch_1.bin .. data_batch_5.bin and test_batch.bin of a folder.
TrainTest load_cifar10(const std::string& folder);

// At most `limit` of the pictures, each in the middle of a larger one of shape `sample` with zeros
// around, repeated over its channels. Throws std::invalid_argument for pictures that are larger or
// have several channels.
Dataset pad_and_repeat(const Dataset& data, const Shape& sample, std::int64_t limit);

// Where Debian's package dataset-fashion-mnist puts its files.
inline constexpr const char* kSystemFashionMnist = "/usr/share/datasets/fashion-mnist";

// The data that a model of this sample shape is trained on: the first of these that is there.
//   28x28x1: MNIST in data_dir, Fashion-MNIST in data_dir, the system's Fashion-MNIST, synthetic.
//   32x32x3: CIFAR-10 in data_dir; the pictures of Fashion-MNIST (in a folder of that name in
//            data_dir, else the system's), the first 50,000, padded and repeated over 3 channels;
//            synthetic.
//   others:  synthetic.
// An empty data_dir means none. Otherwise it must hold at least one of the three sets, in a layout
// of those the error message lists; where it lacks the one for this model, a warning says what is
// used instead. Warnings are also printed to standard error.
// Throws std::runtime_error when data_dir holds nothing usable, or files that are unsound.
TrainTest load_for_model(const ModelSpec& spec, const std::string& data_dir,
                         const std::string& system_fashion_mnist = kSystemFashionMnist);

// How many different labels the first `count` pictures have; all of them where there are fewer.
std::int64_t classes_in_first(const DatasetView& data, std::int64_t count);

}  // namespace trainbench
