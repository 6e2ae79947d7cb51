#include "kernels/ops/max_pool2d.hpp"

#include "kernels/core/op_table.hpp"
#include "kernels/onednn/pooling_primitives.hpp"

namespace trainbench::onednn {
namespace {

class OnednnMaxPool2d final : public OnednnPooling<MaxPool2d> {
 public:
  OnednnMaxPool2d(const OpContext& context, const Problem& p)
      : OnednnPooling(context, p, dnnl::algorithm::pooling_max) {}

  void backward_data(Tensor, Tensor dy, Tensor dx) override { backward(dy, dx); }
  bool reads(Pass pass, std::string_view operand) const override {
    return pass == Pass::kForward || operand != "x";
  }
};

}  // namespace

void add_max_pool2d(OpTable& ops) { ops.add<MaxPool2d, OnednnMaxPool2d>(); }

}  // namespace trainbench::onednn
