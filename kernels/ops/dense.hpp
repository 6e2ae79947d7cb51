#pragma once

#include "kernels/core/checks.hpp"
#include "kernels/core/op.hpp"

namespace trainbench {

// A fully connected layer: z[b,o] = bias[o] + sum_i x[b,i] w[i,o]; y = z, or max(z, 0) with `relu`.
// Backward passes get dy, the gradient of y, and with `relu` also y: dz = dy where y > 0, else 0;
// dw = x^T dz, dbias = sum_b dz, dx = dz w^T. backward_data may use the dz that backward_weights left.
class Dense : public OpObject {
 public:
  struct Problem {
    std::int64_t batch = 1, in_features = 1, out_features = 1;
    bool bias = true, relu = false;
  };
  struct Config {
    std::int64_t units = 1;
    bool relu = false, bias = true;
  };
  static constexpr std::string_view kName = "dense";
  static constexpr bool kExactOnIntegers = true;
  static constexpr std::string_view kLayerType = "Dense";

  static Problem problem(const Config& config, std::int64_t batch, const Shape& sample) {
    require(sample.rank() == 1, "dense needs a flat sample, not " + to_string(sample));
    return {batch, sample[0], config.units, config.bias, config.relu};
  }
  static Shape output(const Config& config, const Shape&) { return {config.units}; }
  static void validate(const Problem& p) {
    require(p.batch >= 1 && p.in_features >= 1 && p.out_features >= 1,
            "dense needs extents of at least 1: " + describe(p));
  }
  static std::string describe(const Problem& p) {
    return to_string(Shape{p.batch, p.in_features}) + "->" + std::to_string(p.out_features) +
           (p.relu ? " relu" : "") + (p.bias ? "" : " no bias");
  }

  static std::vector<Pass> passes(const Problem&) {
    return {Pass::kForward, Pass::kBackwardWeights, Pass::kBackwardData};
  }
  static std::vector<Operand> operands(const Problem& p, Pass pass) {
    const Shape x{p.batch, p.in_features}, y{p.batch, p.out_features};
    const Shape w{p.in_features, p.out_features}, bias{p.out_features};
    std::vector<Operand> list;
    const auto add = [&list](bool present, Operand operand) {
      if (present) list.push_back(operand);
    };
    switch (pass) {
      case Pass::kForward:
        list = {{"x", x, Role::kInput}, {"w", w, Role::kParameter}};
        add(p.bias, {"bias", bias, Role::kParameter});
        add(true, {"y", y, Role::kOutput});
        break;
      case Pass::kBackwardWeights:
        list = {{"x", x, Role::kInput}, {"dy", y, Role::kInput}};
        add(p.relu, {"y", y, Role::kInput});
        add(true, {"dw", w, Role::kOutput});
        add(p.bias, {"dbias", bias, Role::kOutput});
        break;
      case Pass::kBackwardData:
        list = {{"dy", y, Role::kInput}, {"w", w, Role::kParameter}};
        add(p.relu, {"y", y, Role::kInput});
        add(true, {"dx", x, Role::kOutput});
        break;
      case Pass::kUpdate:
        break;
    }
    return list;
  }
  static Work work(const Problem& p, Pass pass) {
    Work work{.flops = 2.0 * static_cast<double>(p.batch) * static_cast<double>(p.in_features) *
                       static_cast<double>(p.out_features)};
    for (const Operand& operand : operands(p, pass)) {
      work.bytes += static_cast<double>(operand.bytes());
    }
    return work;
  }
  static std::int64_t reduction_length(const Problem& p, Pass pass) {
    if (pass == Pass::kForward) return p.in_features;
    return pass == Pass::kBackwardData ? p.out_features : p.batch;
  }

  // Absent operands (no bias, no relu) have null data.
  virtual void forward(Tensor x, Tensor w, Tensor bias, Tensor y) = 0;
  virtual void backward_weights(Tensor x, Tensor dy, Tensor y, Tensor dw, Tensor dbias) = 0;
  virtual void backward_data(Tensor dy, Tensor w, Tensor y, Tensor dx) = 0;

  explicit Dense(const Problem& problem) : problem_(problem) {}

  void run(Pass pass, std::span<const Tensor> t) final {
    std::size_t next = 0;
    const auto take = [&](bool present = true) { return present ? t[next++] : Tensor{}; };
    const bool bias = problem_.bias, relu = problem_.relu;
    switch (pass) {
      case Pass::kForward: {
        const Tensor x = take(), w = take(), b = take(bias), y = take();
        return forward(x, w, b, y);
      }
      case Pass::kBackwardWeights: {
        const Tensor x = take(), dy = take(), y = take(relu), dw = take(), db = take(bias);
        return backward_weights(x, dy, y, dw, db);
      }
      case Pass::kBackwardData: {
        const Tensor dy = take(), w = take(), y = take(relu), dx = take();
        return backward_data(dy, w, y, dx);
      }
      case Pass::kUpdate:
        break;
    }
    throw std::logic_error("dense has no pass " + std::string(to_string(pass)));
  }

 protected:
  const Problem& problem() const { return problem_; }

 private:
  Problem problem_;
};

}  // namespace trainbench
