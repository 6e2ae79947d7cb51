#pragma once

#include <cmath>

#include "kernels/core/checks.hpp"
#include "kernels/core/op.hpp"
#include "kernels/core/threefry.hpp"

namespace trainbench {

// Inverted dropout: y = x / (1 - rate) where kept, 0 where dropped; dx likewise from dy. The mask
// is a pure function of seed, layer, step and element, the same on every backend: `dropped` below.
class Dropout : public OpObject {
 public:
  struct Problem {
    std::int64_t elements = 1;
    double rate = 0.5;  // Share dropped, in [0, 1]; 1 drops everything.
    std::uint32_t seed = 0;
    std::uint32_t layer = 0;  // Index among the model's dropout layers.
  };
  struct Config {
    double rate = 0.5;
    std::uint32_t seed = 0;   // Set by the executor from the compile options.
    std::uint32_t layer = 0;  // Set when the model is built.
  };
  static constexpr std::string_view kName = "dropout";
  static constexpr std::string_view kLayerType = "Dropout";

  static Problem problem(const Config& config, std::int64_t batch, const Shape& sample) {
    return {batch * sample.elements(), config.rate, config.seed, config.layer};
  }
  static Shape output(const Config&, const Shape& sample) { return sample; }
  static void validate(const Problem& p) {
    require(p.elements >= 1, "dropout needs elements");
    require(p.rate >= 0 && p.rate <= 1,
            "dropout needs a rate from 0 to 1, not " + std::to_string(p.rate));
  }
  static std::string describe(const Problem& p) {
    return std::to_string(p.elements) + " rate " + std::to_string(p.rate) + " seed " +
           std::to_string(p.seed) + " layer " + std::to_string(p.layer);
  }

  // Elements whose word is below this are dropped: floor(rate * 2^32). 2^32, for rate 1, does not
  // fit 32 bits, hence 64.
  static std::uint64_t threshold(double rate) {
    return static_cast<std::uint64_t>(std::floor(rate * 0x1p32));
  }
  // Factor of kept values; 0 for rate 1, which keeps none.
  static float scale(double rate) { return rate < 1 ? static_cast<float>(1 / (1 - rate)) : 0.0f; }
  // Whether element i of the canonical order is dropped in the step that follows `updates` updates.
  static bool dropped(const Problem& p, std::uint32_t updates, std::uint64_t i) {
    const auto words =
        threefry::block({p.seed, p.layer}, {updates + 1, static_cast<std::uint32_t>(i / 2)});
    return words[i % 2] < threshold(p.rate);
  }

  static std::vector<Pass> passes(const Problem&) { return {Pass::kForward, Pass::kBackwardData}; }
  // step: updates made so far, t - 1 in Adam's terms.
  static std::vector<Operand> operands(const Problem& p, Pass pass) {
    const Shape flat{p.elements};
    const Operand step{"step", {1}, Role::kInput, DType::kUint32, Fill::below(1000)};
    if (pass == Pass::kForward) {
      return {{"x", flat, Role::kInput}, step, {"y", flat, Role::kOutput}};
    }
    return {{"dy", flat, Role::kInput}, step, {"dx", flat, Role::kOutput}};
  }
  static Work work(const Problem& p, Pass) {
    return {.bytes = 8.0 * static_cast<double>(p.elements)};
  }
  static std::int64_t reduction_length(const Problem&, Pass) { return 1; }

  virtual void forward(Tensor x, Tensor step, Tensor y) = 0;
  virtual void backward_data(Tensor dy, Tensor step, Tensor dx) = 0;

  void run(Pass pass, std::span<const Tensor> t) final {
    if (pass == Pass::kForward) return forward(t[0], t[1], t[2]);
    if (pass == Pass::kBackwardData) return backward_data(t[0], t[1], t[2]);
    throw std::logic_error("dropout has no pass " + std::string(to_string(pass)));
  }
};

}  // namespace trainbench
