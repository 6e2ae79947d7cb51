#pragma once

#include "kernels/core/checks.hpp"
#include "kernels/core/op.hpp"

namespace trainbench {

// Takes the next batch of a permuted data set to the network's input: with c = cursor,
//   x[b,:] = images[order[c + b], :] / 255;  labels[b] = classes[order[c + b]]
// then cursor = c + batch, or 0 when that is the end. The data set holds at least cursor + batch
// samples. Reading past the end of the order is the caller's error.
class Gather : public OpObject {
 public:
  struct Problem {
    std::int64_t batch = 1, count = 1;  // Samples taken, samples in the data set.
    std::int64_t features = 1;          // Bytes of one sample.
    std::int64_t classes = 10;
  };
  static constexpr std::string_view kName = "gather";

  static void validate(const Problem& p) {
    require(p.batch >= 1 && p.features >= 1 && p.classes >= 1,
            "gather needs samples: " + describe(p));
    require(p.count >= p.batch,
            "batch " + std::to_string(p.batch) + " > " + std::to_string(p.count) + " samples");
  }
  static std::string describe(const Problem& p) {
    return to_string(Shape{p.batch, p.features}) + " of " + std::to_string(p.count) + ", " +
           std::to_string(p.classes) + " classes";
  }

  static std::vector<Pass> passes(const Problem&) { return {Pass::kForward}; }
  static std::vector<Operand> operands(const Problem& p, Pass) {
    return {{"images", {p.count, p.features}, Role::kInput, DType::kUint8, Fill::below(256)},
            {"classes", {p.count}, Role::kInput, DType::kUint8, Fill::below(p.classes)},
            {"order", {p.count}, Role::kInput, DType::kUint32, Fill::permutation()},
            {"cursor", {1}, Role::kInOut, DType::kUint32, Fill::zero()},
            {"x", {p.batch, p.features}, Role::kOutput},
            {"labels", {p.batch}, Role::kOutput, DType::kInt32}};
  }
  static Work work(const Problem& p, Pass) {
    return {.bytes = 5.0 * static_cast<double>(p.batch * p.features)};
  }
  static std::int64_t reduction_length(const Problem&, Pass) { return 1; }

  virtual void gather(Tensor images, Tensor classes, Tensor order, Tensor cursor, Tensor x,
                      Tensor labels) = 0;

  void run(Pass pass, std::span<const Tensor> t) final {
    if (pass == Pass::kForward) return gather(t[0], t[1], t[2], t[3], t[4], t[5]);
    throw std::logic_error("gather has no pass " + std::string(to_string(pass)));
  }
};

}  // namespace trainbench
