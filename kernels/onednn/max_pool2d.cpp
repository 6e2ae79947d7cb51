#include "kernels/ops/max_pool2d.hpp"

#include <memory>

#include "kernels/core/op_table.hpp"
#include "kernels/onednn/pooling_primitives.hpp"

namespace trainbench::onednn {
namespace {

class OnednnMaxPool2d final : public MaxPool2d {
 public:
  OnednnMaxPool2d(const OpContext& context, const Problem& p)
      : primitives_(context, p, dnnl::algorithm::pooling_max, "max_pool2d " + describe(p)) {}

  void forward(Tensor x, Tensor y) override {
    primitives_.forward(x.data, y.data, state(), scratch());
  }
  void backward_data(Tensor, Tensor dy, Tensor dx) override {
    primitives_.backward(dy.data, dx.data, state(), scratch());
  }
  std::string implementation(Pass pass) const override { return primitives_.implementation(pass); }
  bool reads(Pass pass, std::string_view operand) const override {
    return pass == Pass::kForward || operand != "x";
  }
  Layout layout(std::string_view operand) const override { return primitives_.layout(operand); }
  std::size_t state_bytes() const override { return primitives_.workspace_bytes(); }
  std::size_t scratch_bytes() const override { return primitives_.scratch_bytes(); }

 private:
  PoolingPrimitives primitives_;
};

}  // namespace

void add_max_pool2d(OpTable& ops) {
  ops.add<MaxPool2d>([](const OpContext& context, const MaxPool2d::Problem& p) {
    return std::unique_ptr<OpObject>(std::make_unique<OnednnMaxPool2d>(context, p));
  });
}

}  // namespace trainbench::onednn
