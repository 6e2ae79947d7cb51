#include "kernels/ops/avg_pool2d.hpp"

#include "kernels/core/op_table.hpp"
#include "kernels/onednn/pooling_primitives.hpp"

namespace trainbench::onednn {
namespace {

class OnednnAvgPool2d final : public OnednnPooling<AvgPool2d> {
 public:
  OnednnAvgPool2d(const OpContext& context, const Problem& p)
      : OnednnPooling(context, p, dnnl::algorithm::pooling_avg_exclude_padding) {}

  void backward_data(Tensor dy, Tensor dx) override { backward(dy, dx); }
};

}  // namespace

void add_avg_pool2d(OpTable& ops) { ops.add<AvgPool2d, OnednnAvgPool2d>(); }

}  // namespace trainbench::onednn
