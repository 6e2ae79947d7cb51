#pragma once

#include "kernels/core/checks.hpp"
#include "kernels/core/op.hpp"

namespace trainbench {

// Copies an operand from one layout to another. Every backend converts between NHWC, the canonical
// form of activations, and planar NCHW, which other frameworks and files use; a backend with
// layouts of its own also converts between each of those and the canonical form.
class Reorder : public OpObject {
 public:
  // The planar form of a rank-4 activation. Its memory is a dense tensor of shape N x C x H x W.
  static Layout planar() { return {.name = "nchw", .bytes = 0, .handle = nullptr}; }

  struct Problem {
    Shape shape;  // Canonical.
    Layout from, to;
  };
  static constexpr std::string_view kName = "reorder";
  static constexpr bool kExactOnIntegers = true;

  static void validate(const Problem& p) {
    require(p.shape.elements() >= 1, "reorder needs elements");
    require((p.from != planar() && p.to != planar()) || p.shape.rank() == 4,
            "nchw needs a shape of rank 4, not " + to_string(p.shape));
  }
  static std::string describe(const Problem& p) {
    const auto name = [](const Layout& layout) {
      return layout.canonical() ? std::string("canonical") : layout.name;
    };
    return to_string(p.shape) + " " + name(p.from) + "->" + name(p.to);
  }

  static std::vector<Pass> passes(const Problem&) { return {Pass::kForward}; }
  static std::vector<Operand> operands(const Problem& p, Pass) {
    const Shape& s = p.shape;
    const auto shape = [&s](const Layout& layout) {
      return layout == planar() ? Shape{s[0], s[3], s[1], s[2]} : s;
    };
    return {{"x", shape(p.from), Role::kInput}, {"y", shape(p.to), Role::kOutput}};
  }
  static Work work(const Problem& p, Pass) {
    return {.bytes = 8.0 * static_cast<double>(p.shape.elements())};
  }
  static std::int64_t reduction_length(const Problem&, Pass) { return 1; }

  explicit Reorder(const Problem& problem) : problem_(problem) {}
  virtual void reorder(Tensor x, Tensor y) = 0;

  void run(Pass pass, std::span<const Tensor> t) final {
    if (pass == Pass::kForward) return reorder(t[0], t[1]);
    throw std::logic_error("reorder has no pass " + std::string(to_string(pass)));
  }
  // Planar operands are dense tensors of another shape, so only a backend's own forms show here.
  Layout layout(std::string_view operand) const override {
    const Layout& layout = operand == "x" ? problem_.from : problem_.to;
    return layout == planar() ? Layout{} : layout;
  }

 protected:
  const Problem& problem() const { return problem_; }

 private:
  Problem problem_;
};

}  // namespace trainbench
