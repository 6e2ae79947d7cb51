#include "kernels/ops/conv2d.hpp"

#include "kernels/core/op_table.hpp"
#include "tests/template_backend/kernels.hpp"
#include "tests/template_backend/padded.hpp"

namespace trainbench::template_backend {
namespace {

// Keeps all operands padded, in bf16 all but the bias rounded; its scratch holds the transposed
// weights.
class TemplateConv2d final : public Conv2d {
 public:
  TemplateConv2d(const OpContext& context, const Problem& p)
      : device_(as_template(context.device)),
        x_(Padded::channels({p.batch, p.height, p.width, p.in_channels}, context.precision)),
        y_(Padded::channels({p.batch, p.out_height(), p.out_width(), p.out_channels},
                            context.precision)),
        w_(Padded::weights({p.window.size, p.window.size, p.in_channels, p.out_channels},
                           context.precision)),
        bias_(Padded::channels({p.out_channels}, Precision::kFp32)),
        sliding_{.batch = p.batch,
                 .height = p.height,
                 .width = p.width,
                 .in = x_.stored_columns,
                 .out = y_.stored_columns,
                 .window = p.window} {}

  std::string implementation(Pass) const override { return "padded loops"; }
  std::size_t scratch_bytes() const override {
    return static_cast<std::size_t>(w_.stored()) * sizeof(float);
  }
  Layout layout(std::string_view operand) const override {
    if (operand == "x") return x_.layout();
    if (operand == "y") return y_.layout();
    return operand == "w" ? w_.layout() : bias_.layout();
  }

  void forward(Tensor x, Tensor w, Tensor bias, Tensor y) override {
    device_.enqueue(
        [&device = device_, xf = x_, wf = w_, bf = bias_, yf = y_, s = sliding_, x, w, bias, y] {
          conv_forward(s, xf.in(device, x), wf.in(device, w),
                       bias.data == nullptr ? nullptr : bf.in(device, bias), yf.out(device, y));
          yf.settle(yf.out(device, y));
        });
  }
  void backward_weights(Tensor x, Tensor dy, Tensor dw, Tensor dbias) override {
    device_.enqueue(
        [&device = device_, xf = x_, wf = w_, bf = bias_, yf = y_, s = sliding_, x, dy, dw, dbias] {
          conv_backward_weights(s, xf.in(device, x), yf.in(device, dy), wf.out(device, dw),
                                dbias.data == nullptr ? nullptr : bf.out(device, dbias));
          wf.settle(wf.out(device, dw));
        });
  }
  void backward_data(Tensor dy, Tensor w, Tensor dx) override {
    device_.enqueue([&device = device_, xf = x_, wf = w_, yf = y_, s = sliding_, dy, w, dx,
                     transposed = scratch()] {
      conv_backward_data(s, yf.in(device, dy), wf.in(device, w),
                         device.floats(transposed, wf.stored()), xf.out(device, dx));
      xf.settle(xf.out(device, dx));
    });
  }

 private:
  TemplateDevice& device_;
  Padded x_, y_, w_, bias_;
  Sliding sliding_;
};

}  // namespace

void add_conv2d(OpTable& ops) { ops.add<Conv2d, TemplateConv2d>(); }

}  // namespace trainbench::template_backend
