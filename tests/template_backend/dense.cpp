#include "kernels/ops/dense.hpp"

#include <vector>

#include "kernels/core/op_table.hpp"
#include "tests/template_backend/kernels.hpp"
#include "tests/template_backend/padded.hpp"

namespace trainbench::template_backend {
namespace {

// A convolution over images of one pixel. In bf16 all operands but the bias are rounded. Its
// scratch holds the transposed weights.
class TemplateDense final : public Dense {
 public:
  TemplateDense(const OpContext& context, const Problem& p)
      : Dense(p),
        device_(as_template(context.device)),
        x_(Padded::channels({p.batch, p.in_features}, context.precision)),
        y_(Padded::channels({p.batch, p.out_features}, context.precision)),
        w_(Padded::weights({p.in_features, p.out_features}, context.precision)),
        bias_(Padded::channels({p.out_features}, Precision::kFp32)),
        sliding_{.batch = p.batch, .in = x_.stored_columns, .out = y_.stored_columns} {}

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
    device_.enqueue([&device = device_, xf = x_, wf = w_, bf = bias_, yf = y_, s = sliding_,
                     relu = problem().relu, x, w, bias, y] {
      float* result = yf.out(device, y);
      conv_forward(s, xf.in(device, x), wf.in(device, w),
                   bias.data == nullptr ? nullptr : bf.in(device, bias), result);
      if (relu) relu_forward(yf.stored(), result, result);
      yf.settle(result);
    });
  }
  void backward_weights(Tensor x, Tensor dy, Tensor y, Tensor dw, Tensor dbias) override {
    device_.enqueue([&device = device_, xf = x_, wf = w_, bf = bias_, yf = y_, s = sliding_, x, dy,
                     y, dw, dbias] {
      const std::vector<float> dz = before_activation(device, yf, dy, y);
      conv_backward_weights(s, xf.in(device, x), dz.data(), wf.out(device, dw),
                            dbias.data == nullptr ? nullptr : bf.out(device, dbias));
      wf.settle(wf.out(device, dw));
    });
  }
  void backward_data(Tensor dy, Tensor w, Tensor y, Tensor dx) override {
    device_.enqueue([&device = device_, xf = x_, wf = w_, yf = y_, s = sliding_, dy, w, y, dx,
                     transposed = scratch()] {
      const std::vector<float> dz = before_activation(device, yf, dy, y);
      conv_backward_data(s, dz.data(), wf.in(device, w), device.floats(transposed, wf.stored()),
                         xf.out(device, dx));
      xf.settle(xf.out(device, dx));
    });
  }

 private:
  // The gradient of the sum that the activation was applied to; y is absent where there is none.
  static std::vector<float> before_activation(const TemplateDevice& device, const Padded& form,
                                              const Tensor& dy, const Tensor& y) {
    const float* slope = form.in(device, dy);
    std::vector<float> dz(slope, slope + form.stored());
    if (y.data != nullptr) relu_backward(form.stored(), slope, form.in(device, y), dz.data());
    return dz;
  }

  TemplateDevice& device_;
  Padded x_, y_, w_, bias_;
  Sliding sliding_;
};

}  // namespace

void add_dense(OpTable& ops) { ops.add<Dense, TemplateDense>(); }

}  // namespace trainbench::template_backend
