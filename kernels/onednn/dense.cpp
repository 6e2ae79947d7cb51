#include "kernels/ops/dense.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>

#include "kernels/core/op_table.hpp"
#include "kernels/onednn/layer_primitives.hpp"
#include "kernels/onednn/negotiation.hpp"

namespace trainbench::onednn {
namespace {

using Tag = dnnl::memory::format_tag;

struct Wish {
  Desc w, dw;
};

using Descriptors =
    LayerDescriptors<dnnl::inner_product_forward, dnnl::inner_product_backward_weights,
                     dnnl::inner_product_backward_data>;

// Here a general matrix product is as good as what is generated for the shape.
int plain_loops(const char* implementation) { return rank(implementation) == 2 ? 1 : 0; }

// Inner product with bias and ReLU fused into the forward pass. The gradient before the ReLU is
// made once per step, by backward_weights, and kept for backward_data.
class OnednnDense final : public Dense {
 public:
  OnednnDense(const OpContext& context, const Problem& p)
      : Dense(p),
        device_(as_onednn(context.device)),
        x_(canonical_matrix(p.batch, p.in_features)),
        y_(canonical_matrix(p.batch, p.out_features)),
        w_(canonical_weights(p.in_features, p.out_features)),
        bias_(p.bias ? canonical_vector(p.out_features) : Desc()) {
    creating(device_, "dense " + describe(p) + " in " + std::string(to_string(context.precision)),
             [&] {
               type_ = data_type(context.precision);
               const Descriptors chosen = choose(context);
               primitives_ = {device_, chosen, chosen.kept_weights(context, w_), p.bias};
               if (p.relu && !context.inference) make_mask();
             });
  }

  void forward(Tensor x, Tensor w, Tensor bias, Tensor y) override {
    primitives_.forward(x.data, w.data, bias.data, y.data, state(), scratch());
  }
  void backward_weights(Tensor x, Tensor dy, Tensor y, Tensor dw, Tensor dbias) override {
    if (mask_) mask_.run(std::array{y.data, dy.data, masked_gradient()}, scratch());
    primitives_.backward_weights(x.data, before_relu(dy), dw.data, dbias.data, scratch());
  }
  void backward_data(Tensor dy, Tensor w, Tensor, Tensor dx) override {
    primitives_.backward_data(before_relu(dy), w.data, dx.data, state(), scratch());
  }
  bool reads(Pass pass, std::string_view operand) const override {
    return pass != Pass::kBackwardData || !mask_ || (operand != "dy" && operand != "y");
  }
  void parameters_changed() override { primitives_.parameters_changed(); }

  std::string implementation(Pass pass) const override {
    const bool masks = mask_ && pass == Pass::kBackwardWeights;
    return primitives_.implementation(pass) + (masks ? "+" + mask_.implementation() : "");
  }
  Layout layout(std::string_view operand) const override {
    if (operand == "x") return make_layout(with_type(x_, type_), x_);
    if (operand == "y") return make_layout(with_type(y_, type_), y_);
    return operand == "w" ? make_layout(primitives_.kept_weights(), w_) : Layout{};
  }
  std::size_t state_bytes() const override { return primitives_.state_bytes() + mask_bytes_; }
  std::size_t scratch_bytes() const override {
    return std::max(primitives_.scratch_bytes(), mask_.scratch_bytes());
  }

 private:
  // Activations are plain matrices. The library may choose the form of the weights (`any`), unless
  // its passes then disagree and a plain matrix saves a reorder in every step.
  Descriptors choose(const OpContext& context) const {
    constexpr auto kFloat = dnnl::memory::data_type::f32;
    const Layout* hint = context.find_hint("w");
    const std::optional<Desc> kept =
        hint == nullptr ? std::nullopt : std::optional(onednn::describe(*hint, w_));
    std::vector<Wish> wishes;
    const Desc any_w = with_any_format(w_, type_);
    if (kept && type_ == kFloat) wishes.push_back({*kept, *kept});
    if (kept && type_ != kFloat) wishes.push_back({any_w, *kept});
    wishes.push_back({any_w, with_any_format(w_, kFloat)});
    for (const Tag tag : {Tag::ba, Tag::ab}) {
      wishes.push_back({with_format(w_, type_, tag), with_format(w_, kFloat, tag)});
    }
    return negotiate<Descriptors>(
        wishes, [&](const Wish& wish) { return describe_wish(context, wish); },
        [&](const Descriptors& answer) {
          return kRankCost * answer.sum(plain_loops) +
                 kReorderCost * reorders(context, answer, kept);
        });
  }

  Descriptors describe_wish(const OpContext& context, const Wish& wish) const {
    const dnnl::engine& engine = device_.engine();
    const Desc x = with_type(x_, type_), y = with_type(y_, type_);
    dnnl::primitive_attr forward_attributes = attributes();
    if (problem().relu) {
      dnnl::post_ops relu;
      relu.append_eltwise(dnnl::algorithm::eltwise_relu, 0, 0);
      forward_attributes.set_post_ops(relu);
    }
    Descriptors result{.forward = {engine,
                                   context.inference ? dnnl::prop_kind::forward_inference
                                                     : dnnl::prop_kind::forward_training,
                                   x, wish.w, bias_, y, forward_attributes},
                       .weights = std::nullopt,
                       .data = std::nullopt};
    if (context.inference) return result;
    result.weights.emplace(engine, x, wish.dw, bias_, y, result.forward, attributes());
    if (context.input_gradient) {
      result.data.emplace(engine, x, wish.w, y, result.forward, attributes());
    }
    return result;
  }

  // How many forms the weights take besides the one they are kept in, and whether that differs from
  // the one they come in.
  int reorders(const OpContext& context, const Descriptors& answer,
               const std::optional<Desc>& incoming) const {
    const Desc kept = answer.kept_weights(context, w_);
    const Desc forward = answer.forward.weights_desc();
    int count = same_memory(forward, kept) ? 0 : 1;
    if (answer.data) {
      const Desc data = answer.data->weights_desc();
      if (!same_memory(data, kept) && !same_memory(data, forward)) ++count;
    }
    return count + (incoming && !same_memory(kept, *incoming) ? 1 : 0);
  }

  void make_mask() {
    constexpr auto kRelu = dnnl::algorithm::eltwise_relu_use_dst_for_bwd;
    const Desc y = with_type(y_, type_);
    const dnnl::eltwise_forward::primitive_desc forward(
        device_.engine(), dnnl::prop_kind::forward_training, kRelu, y, y, 0.0f);
    const dnnl::eltwise_backward::primitive_desc backward(device_.engine(), kRelu, y, y, y, 0.0f,
                                                          forward, attributes());
    mask_ = {device_, backward, {DNNL_ARG_DST, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_SRC}};
    mask_bytes_ = y.get_size();
  }
  void* masked_gradient() const {
    return static_cast<std::byte*>(state()) + primitives_.state_bytes();
  }
  void* before_relu(const Tensor& dy) const { return mask_ ? masked_gradient() : dy.data; }

  OnednnDevice& device_;
  Desc x_, y_, w_, bias_;  // Canonical; bias may be empty.
  dnnl::memory::data_type type_ = dnnl::memory::data_type::undef;
  LayerPrimitives primitives_;
  Primitive mask_;
  std::size_t mask_bytes_ = 0;
};

}  // namespace

void add_dense(OpTable& ops) { ops.add<Dense, OnednnDense>(); }

}  // namespace trainbench::onednn
