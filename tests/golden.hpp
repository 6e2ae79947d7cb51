#pragma once

#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "data/models.hpp"
#include "data/synthetic.hpp"
#include "data/tensor_file.hpp"

// What the golden files under data/golden are of. Their form is described in data/golden/README.md.
namespace trainbench::golden {

inline constexpr std::uint32_t kSeed = 1;  // Of weights, samples and dropout masks.
inline constexpr std::int64_t kSteps = 20;

struct Setting {
  std::string name;  // Also of its file.
  ModelSpec spec;
  std::int64_t batch = 1;
};

// Small relatives of the published models.
inline std::vector<Setting> settings() {
  return {{"cifar10_cnn_width_4", cifar10_cnn(4), 5},
          {"mnist_mlp_depth_1_width_24", mnist_mlp(1, 24), 10},
          {"mnist_mlp_depth_2_width_24", mnist_mlp(2, 24), 10}};
}

// Batches are taken in order, without shuffling.
inline Dataset samples(const Setting& setting) {
  return synthetic(setting.spec.sample, setting.spec.classes(), kSteps * setting.batch, kSeed);
}

// Samples, labels, initial weights, and for each dropout layer the elements that each step keeps.
TensorFile inputs(const Setting& setting);

}  // namespace trainbench::golden
