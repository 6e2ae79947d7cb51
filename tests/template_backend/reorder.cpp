#include "kernels/ops/reorder.hpp"

#include <algorithm>
#include <functional>

#include "kernels/core/op_table.hpp"
#include "tests/template_backend/padded.hpp"

namespace trainbench::template_backend {
namespace {

// Between the canonical form, planar images and the padded forms.
class TemplateReorder final : public Reorder {
 public:
  TemplateReorder(const OpContext& context, const Problem& p)
      : Reorder(p),
        device_(as_template(context.device)),
        from_(place(p, p.from)),
        to_(place(p, p.to)) {}

  std::string implementation(Pass) const override { return "loop"; }

  void reorder(Tensor x, Tensor y) override {
    device_.enqueue(
        [&device = device_, count = problem().shape.elements(), from = from_, to = to_, x, y] {
          const float* source = from.form ? from.form->in(device, x) : device.floats(x.data, count);
          float* target = device.floats(y.data, to.stored);
          std::fill(target, target + to.stored, 0.0f);
          for (std::int64_t i = 0; i < count; ++i) target[to.index(i)] = source[from.index(i)];
          if (to.form) to.form->settle(target);
        });
  }

 private:
  struct Place {
    std::shared_ptr<const Padded> form;  // Of a padded operand.
    std::int64_t stored = 0;
    std::function<std::int64_t(std::int64_t)> index;  // Of a canonical element.
  };

  static Place place(const Problem& p, const Layout& layout) {
    const std::int64_t count = p.shape.elements();
    if (layout == planar()) {
      const std::int64_t channels = p.shape[3], pixels = p.shape[1] * p.shape[2];
      return {nullptr, count, [channels, pixels](std::int64_t i) {
                const std::int64_t n = i / (channels * pixels), pixel = i / channels % pixels;
                return (n * channels + i % channels) * pixels + pixel;
              }};
    }
    const auto form = Padded::of(layout);
    if (form == nullptr) return {nullptr, count, [](std::int64_t i) { return i; }};
    return {form, form->stored(), [form](std::int64_t i) { return form->index(i); }};
  }

  TemplateDevice& device_;
  Place from_, to_;
};

}  // namespace

void add_reorder(OpTable& ops) { ops.add<Reorder, TemplateReorder>({Precision::kFp32}); }

}  // namespace trainbench::template_backend
