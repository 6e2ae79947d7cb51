#include "kernels/ops/dropout.hpp"

#include <algorithm>

#include "kernels/core/op_table.hpp"
#include "tests/template_backend/kernels.hpp"
#include "tests/template_backend/padded.hpp"

namespace trainbench::template_backend {
namespace {

// Works in whatever form its input comes; masks count elements in canonical order.
class TemplateDropout final : public Dropout {
 public:
  TemplateDropout(const OpContext& context, const Problem& p)
      : device_(as_template(context.device)),
        problem_(p),
        layout_(context.hint("x")),
        form_(layout_.canonical() ? Padded{.canonical = {p.elements},
                                           .outer = 1,
                                           .rows = 1,
                                           .columns = p.elements,
                                           .stored_rows = 1,
                                           .stored_columns = p.elements,
                                           .rounded = false}
                                  : *Padded::of(layout_)) {}

  std::string implementation(Pass) const override { return "loop"; }
  Layout layout(std::string_view operand) const override {
    return operand == "step" ? Layout{} : layout_;
  }

  void forward(Tensor x, Tensor step, Tensor y) override { mask(x, step, y); }
  void backward_data(Tensor dy, Tensor step, Tensor dx) override { mask(dy, step, dx); }

 private:
  void mask(Tensor from, Tensor step, Tensor to) {
    device_.enqueue([&device = device_, p = problem_, form = form_, from, step, to] {
      const auto updates =
          *static_cast<const std::uint32_t*>(device.memory(step.data, sizeof(std::uint32_t)));
      const float* source = form.in(device, from);
      float* target = form.out(device, to);
      std::fill(target, target + form.stored(), 0.0f);
      for (std::int64_t i = 0; i < p.elements; ++i) {
        const float factor = dropout_factor(p, updates, i);
        if (factor != 0) target[form.index(i)] = factor * source[form.index(i)];
      }
      form.settle(target);
    });
  }

  TemplateDevice& device_;
  Problem problem_;
  Layout layout_;
  Padded form_;
};

}  // namespace

void add_dropout(OpTable& ops) { ops.add<Dropout, TemplateDropout>({Precision::kFp32}); }

}  // namespace trainbench::template_backend
