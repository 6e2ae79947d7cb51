#include "kernels/ops/softmax.hpp"

#include <algorithm>
#include <array>
#include <memory>

#include "kernels/core/op_table.hpp"
#include "kernels/onednn/primitive.hpp"

namespace trainbench::onednn {
namespace {

class OnednnSoftmax final : public Softmax {
 public:
  OnednnSoftmax(const OpContext& context, const Problem& p)
      : device_(as_onednn(context.device)), canonical_(canonical_matrix(p.batch, p.classes)) {
    const std::string what =
        "softmax " + describe(p) + " in " + std::string(to_string(context.precision));
    creating(device_, what, [&] {
      desc_ = with_type(canonical_, data_type(context.precision));
      make_primitives(context.inference);
    });
  }

  void forward(Tensor x, Tensor y) override { forward_.run(std::array{x.data, y.data}, scratch()); }
  void backward_data(Tensor dy, Tensor y, Tensor dx) override {
    backward_.run(std::array{y.data, dy.data, dx.data}, scratch());
  }
  std::string implementation(Pass pass) const override {
    return (pass == Pass::kForward ? forward_ : backward_).implementation();
  }
  Layout layout(std::string_view) const override { return make_layout(desc_, canonical_); }
  std::size_t scratch_bytes() const override {
    return std::max(forward_.scratch_bytes(), backward_.scratch_bytes());
  }

 private:
  void make_primitives(bool inference) {
    constexpr auto kSoftmax = dnnl::algorithm::softmax_accurate;
    constexpr int kClasses = 1;  // The axis.
    const dnnl::softmax_forward::primitive_desc forward(
        device_.engine(),
        inference ? dnnl::prop_kind::forward_inference : dnnl::prop_kind::forward_training,
        kSoftmax, desc_, desc_, kClasses, attributes());
    forward_ = {device_, forward, {DNNL_ARG_SRC, DNNL_ARG_DST}};
    if (inference) return;
    const dnnl::softmax_backward::primitive_desc backward(device_.engine(), kSoftmax, desc_, desc_,
                                                          desc_, kClasses, forward, attributes());
    backward_ = {device_, backward, {DNNL_ARG_DST, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_SRC}};
  }

  OnednnDevice& device_;
  Desc canonical_, desc_;
  Primitive forward_, backward_;
};

}  // namespace

void add_softmax(OpTable& ops) { ops.add<Softmax, OnednnSoftmax>(); }

}  // namespace trainbench::onednn
