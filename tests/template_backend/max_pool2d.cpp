#include "kernels/ops/max_pool2d.hpp"

#include "kernels/core/op_table.hpp"
#include "tests/template_backend/kernels.hpp"
#include "tests/template_backend/padded.hpp"

namespace trainbench::template_backend {
namespace {

// Remembers in its state where each maximum was, so that the way back needs no x.
class TemplateMaxPool2d final : public MaxPool2d {
 public:
  TemplateMaxPool2d(const OpContext& context, const Problem& p)
      : device_(as_template(context.device)),
        inference_(context.inference),
        x_(Padded::channels({p.batch, p.height, p.width, p.channels}, context.precision)),
        y_(Padded::channels({p.batch, p.out_height(), p.out_width(), p.channels},
                            context.precision)),
        sliding_{.batch = p.batch,
                 .height = p.height,
                 .width = p.width,
                 .in = x_.stored_columns,
                 .out = y_.stored_columns,
                 .window = p.window} {}

  std::string implementation(Pass) const override { return "padded loops"; }
  std::size_t state_bytes() const override {
    return inference_ ? 0 : static_cast<std::size_t>(y_.stored()) * sizeof(std::int32_t);
  }
  Layout layout(std::string_view operand) const override {
    return operand == "x" ? x_.layout() : y_.layout();
  }

  void forward(Tensor x, Tensor y) override {
    device_.enqueue([&device = device_, xf = x_, yf = y_, s = sliding_, bytes = state_bytes(),
                     winners = state(), x, y] {
      auto* positions =
          winners == nullptr ? nullptr : static_cast<std::int32_t*>(device.memory(winners, bytes));
      pool_forward(s, xf.in(device, x), yf.out(device, y), positions);
    });
  }
  void backward_data(Tensor, Tensor dy, Tensor dx) override {
    device_.enqueue([&device = device_, xf = x_, yf = y_, s = sliding_, bytes = state_bytes(),
                     winners = state(), dy, dx] {
      pool_backward(s, static_cast<const std::int32_t*>(device.memory(winners, bytes)),
                    yf.in(device, dy), xf.out(device, dx));
      xf.settle(xf.out(device, dx));
    });
  }

 private:
  TemplateDevice& device_;
  bool inference_;
  Padded x_, y_;
  Sliding sliding_;
};

}  // namespace

void add_max_pool2d(OpTable& ops) { ops.add<MaxPool2d, TemplateMaxPool2d>(); }

}  // namespace trainbench::template_backend
