#include "kernels/ops/relu.hpp"

#include <algorithm>
#include <array>
#include <memory>

#include "kernels/core/op_table.hpp"
#include "kernels/onednn/primitive.hpp"

namespace trainbench::onednn {
namespace {

// Over the memory of its operands, element by element, whatever their form: padding is zero, and
// stays zero.
class OnednnRelu final : public Relu {
 public:
  OnednnRelu(const OpContext& context, const Problem& p) : device_(as_onednn(context.device)) {
    const std::string what =
        "relu " + describe(p) + " in " + std::string(to_string(context.precision));
    creating(device_, what, [&] {
      const auto type = data_type(context.precision);
      const Desc canonical = canonical_vector(p.elements);
      const Form* incoming = form_of(context.hint("x"));
      const bool as_it_comes = incoming != nullptr && incoming->desc.get_data_type() == type;
      layout_ =
          as_it_comes ? context.hint("x") : make_layout(with_type(canonical, type), canonical);
      const std::int64_t elements =
          as_it_comes
              ? static_cast<std::int64_t>(layout_.bytes / dnnl::memory::data_type_size(type))
              : p.elements;
      make_primitives(with_type(canonical_vector(elements), type), context.inference);
    });
  }

  void forward(Tensor x, Tensor y) override { forward_.run(std::array{x.data, y.data}, scratch()); }
  void backward_data(Tensor dy, Tensor y, Tensor dx) override {
    backward_.run(std::array{y.data, dy.data, dx.data}, scratch());
  }
  std::string implementation(Pass pass) const override {
    return (pass == Pass::kForward ? forward_ : backward_).implementation();
  }
  Layout layout(std::string_view) const override { return layout_; }
  std::size_t scratch_bytes() const override {
    return std::max(forward_.scratch_bytes(), backward_.scratch_bytes());
  }

 private:
  void make_primitives(const Desc& flat, bool inference) {
    constexpr auto kRelu = dnnl::algorithm::eltwise_relu_use_dst_for_bwd;
    const dnnl::eltwise_forward::primitive_desc forward(
        device_.engine(),
        inference ? dnnl::prop_kind::forward_inference : dnnl::prop_kind::forward_training, kRelu,
        flat, flat, 0.0f, 0.0f, attributes());
    forward_ = {device_, forward, {DNNL_ARG_SRC, DNNL_ARG_DST}};
    if (inference) return;
    const dnnl::eltwise_backward::primitive_desc backward(device_.engine(), kRelu, flat, flat, flat,
                                                          0.0f, 0.0f, forward, attributes());
    backward_ = {device_, backward, {DNNL_ARG_DST, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_SRC}};
  }

  OnednnDevice& device_;
  Layout layout_;
  Primitive forward_, backward_;
};

}  // namespace

void add_relu(OpTable& ops) { ops.add<Relu, OnednnRelu>(); }

}  // namespace trainbench::onednn
