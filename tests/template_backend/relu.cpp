#include "kernels/ops/relu.hpp"

#include "kernels/core/op_table.hpp"
#include "tests/template_backend/kernels.hpp"
#include "tests/template_backend/padded.hpp"

namespace trainbench::template_backend {
namespace {

// Works in whatever form its input comes: padding stays zero.
class TemplateRelu final : public Relu {
 public:
  TemplateRelu(const OpContext& context, const Problem& p)
      : device_(as_template(context.device)), layout_(context.hint("x")) {
    const auto form = Padded::of(layout_);
    count_ = form == nullptr ? p.elements : form->stored();
  }

  std::string implementation(Pass) const override { return "loop"; }
  Layout layout(std::string_view) const override { return layout_; }

  void forward(Tensor x, Tensor y) override {
    device_.enqueue([&device = device_, count = count_, x, y] {
      relu_forward(count, device.floats(x.data, count), device.floats(y.data, count));
    });
  }
  void backward_data(Tensor dy, Tensor y, Tensor dx) override {
    device_.enqueue([&device = device_, count = count_, dy, y, dx] {
      relu_backward(count, device.floats(dy.data, count), device.floats(y.data, count),
                    device.floats(dx.data, count));
    });
  }

 private:
  TemplateDevice& device_;
  Layout layout_;
  std::int64_t count_ = 0;  // Padding included.
};

}  // namespace

void add_relu(OpTable& ops) { ops.add<Relu, TemplateRelu>({Precision::kFp32}); }

}  // namespace trainbench::template_backend
