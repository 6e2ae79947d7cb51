#include "kernels/ops/avg_pool2d.hpp"

#include <memory>

#include "kernels/core/op_table.hpp"
#include "kernels/onednn/pooling_primitives.hpp"

namespace trainbench::onednn {
namespace {

class OnednnAvgPool2d final : public AvgPool2d {
 public:
  OnednnAvgPool2d(const OpContext& context, const Problem& p)
      : primitives_(context, p, dnnl::algorithm::pooling_avg_exclude_padding,
                    "avg_pool2d " + describe(p)) {}

  void forward(Tensor x, Tensor y) override {
    primitives_.forward(x.data, y.data, state(), scratch());
  }
  void backward_data(Tensor dy, Tensor dx) override {
    primitives_.backward(dy.data, dx.data, state(), scratch());
  }
  std::string implementation(Pass pass) const override { return primitives_.implementation(pass); }
  Layout layout(std::string_view operand) const override { return primitives_.layout(operand); }
  std::size_t state_bytes() const override { return primitives_.workspace_bytes(); }
  std::size_t scratch_bytes() const override { return primitives_.scratch_bytes(); }

 private:
  PoolingPrimitives primitives_;
};

}  // namespace

void add_avg_pool2d(OpTable& ops) {
  ops.add<AvgPool2d>([](const OpContext& context, const AvgPool2d::Problem& p) {
    return std::unique_ptr<OpObject>(std::make_unique<OnednnAvgPool2d>(context, p));
  });
}

}  // namespace trainbench::onednn
