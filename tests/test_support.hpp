#pragma once

#include <cctype>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "data/models.hpp"
#include "data/synthetic.hpp"
#include "harness/rows/model_rows.hpp"
#include "kernels/core/backend.hpp"
#include "kernels/ops/conv2d.hpp"
#include "kernels/ops/dense.hpp"
#include "kernels/ops/dropout.hpp"
#include "kernels/ops/max_pool2d.hpp"

// What several tests share.
namespace trainbench::test {

// The backends of the registry that this test is linked with, made once.
inline const std::vector<std::unique_ptr<Backend>>& all_backends() {
  static const std::vector<std::unique_ptr<Backend>> backends = make_backends();
  return backends;
}

inline const Backend& find_backend(const std::string& name) {
  for (const auto& backend : all_backends()) {
    if (backend->name() == name) return *backend;
  }
  throw std::invalid_argument("no backend " + name);
}

// Those that compute on CPUs, and those whose device is there. A test must not pass because a CPU
// backend could not be opened.
inline std::vector<const Backend*> usable_backends(bool contenders_only) {
  std::vector<const Backend*> usable;
  for (const auto& backend : all_backends()) {
    if (contenders_only && !backend->contends()) continue;
    if (backend->on_host() || backend->probe().available) usable.push_back(backend.get());
  }
  return usable;
}

// The precisions of a backend that this machine can compute in.
inline std::vector<Precision> usable_precisions(const Backend& backend) {
  const Probe probe = backend.probe();
  std::vector<Precision> precisions = backend.precisions();
  std::erase_if(precisions, [&](Precision precision) { return !probe.lacks(precision).empty(); });
  return precisions;
}

// Those of them that can train a model, and the reference.
inline std::vector<const Backend*> training_backends(const ModelSpec& spec, bool contenders_only) {
  std::vector<const Backend*> backends = usable_backends(contenders_only);
  std::erase_if(backends, [&](const Backend* backend) {
    return backend->contends() && !can_train(*backend, spec);
  });
  return backends;
}

// "conv2d 2x7x5x3->5 k3s1same" -> "conv2d_2x7x5x3_5_k3s1same", as names of tests want it.
inline std::string test_name(const std::string& text) {
  std::string name;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      name += c;
    } else if (!name.empty() && name.back() != '_') {
      name += '_';
    }
  }
  return name;
}

// A network of a few hundred parameters with every kind of layer and no round number.
inline ModelSpec tiny_cnn() {
  return {.name = "tiny_cnn",
          .sample = {6, 7, 3},
          .layers = {layer<Conv2d>("conv1", {.out_channels = 5}),
                     layer<MaxPool2d>("pool1", {.window = {2, 2, Padding::kSame}}),
                     layer<Conv2d>(
                         "conv2",
                         {.out_channels = 3, .window = {3, 2, Padding::kValid}, .bias = false}),
                     flatten("flatten"), layer<Dropout>("dropout1", {.rate = 0.3, .layer = 0}),
                     layer<Dense>("dense1", {.units = 11, .relu = true}),
                     layer<Dropout>("dropout2", {.rate = 0.2, .layer = 1}),
                     layer<Dense>("dense2", {.units = 4})},
          .adam = {}};
}

inline std::vector<std::uint32_t> make_order(std::int64_t count, std::uint32_t epoch = 0) {
  std::vector<std::uint32_t> order;
  epoch_order(count, 1, epoch, order);
  return order;
}

}  // namespace trainbench::test

namespace trainbench {

// How GoogleTest prints a backend.
inline void PrintTo(const Backend* backend, std::ostream* out) { *out << backend->name(); }

}  // namespace trainbench
