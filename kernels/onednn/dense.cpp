#include "kernels/ops/dense.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>

#include "kernels/core/op_table.hpp"
#include "kernels/onednn/negotiation.hpp"
#include "kernels/onednn/weights.hpp"

namespace trainbench::onednn {
namespace {

using Tag = dnnl::memory::format_tag;

struct Wish {
  Desc w, dw;
};

struct Descriptors {
  dnnl::inner_product_forward::primitive_desc forward;
  std::optional<dnnl::inner_product_backward_weights::primitive_desc> weights;
  std::optional<dnnl::inner_product_backward_data::primitive_desc> data;

  // Here a general matrix product is as good as what is generated for the shape.
  int rank_cost() const {
    const auto is_plain = [](const char* implementation) {
      return rank(implementation) == 2 ? 1 : 0;
    };
    int sum = is_plain(forward.impl_info_str());
    if (weights) sum += is_plain(weights->impl_info_str());
    if (data) sum += is_plain(data->impl_info_str());
    return kRankCost * sum;
  }
};

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
               weights_ = Weights(device_, kept_weights(context, chosen));
               make_primitives(p, chosen);
               if (p.relu && !context.inference) make_mask();
             });
  }

  void forward(Tensor x, Tensor w, Tensor bias, Tensor y) override {
    void* weights = weights_.get(forward_weights_, w.data, state(), scratch());
    const std::array data{x.data, weights, y.data, bias.data};
    forward_.run(std::span(data).first(bias.data == nullptr ? 3 : 4), scratch());
  }
  void backward_weights(Tensor x, Tensor dy, Tensor y, Tensor dw, Tensor dbias) override {
    if (mask_) mask_.run(std::array{y.data, dy.data, masked_gradient()}, scratch());
    const std::array data{x.data, mask_ ? masked_gradient() : dy.data, dw.data, dbias.data};
    backward_weights_.run(std::span(data).first(dbias.data == nullptr ? 3 : 4), scratch());
  }
  void backward_data(Tensor dy, Tensor w, Tensor, Tensor dx) override {
    void* weights = weights_.get(data_weights_, w.data, state(), scratch());
    const std::array data{mask_ ? masked_gradient() : dy.data, weights, dx.data};
    backward_data_.run(data, scratch());
  }
  bool reads(Pass pass, std::string_view operand) const override {
    return pass != Pass::kBackwardData || !mask_ || (operand != "dy" && operand != "y");
  }
  void parameters_changed() override { weights_.changed(); }

  std::string implementation(Pass pass) const override {
    const auto with = [this](const Primitive& primitive, std::size_t form) {
      return primitive.implementation() + weights_.describe_copy(form);
    };
    if (pass == Pass::kForward) return with(forward_, forward_weights_);
    if (pass == Pass::kBackwardData) return with(backward_data_, data_weights_);
    return backward_weights_.implementation() + (mask_ ? "+" + mask_.implementation() : "");
  }
  Layout layout(std::string_view operand) const override {
    if (operand == "x") return make_layout(with_type(x_, type_), x_);
    if (operand == "y") return make_layout(with_type(y_, type_), y_);
    return operand == "w" ? make_layout(weights_.kept(), w_) : Layout{};
  }
  std::size_t state_bytes() const override { return weights_.state_bytes() + mask_bytes_; }
  std::size_t scratch_bytes() const override {
    return std::max({forward_.scratch_bytes(), backward_weights_.scratch_bytes(),
                     backward_data_.scratch_bytes(), mask_.scratch_bytes(),
                     weights_.scratch_bytes()});
  }

 private:
  // Activations are plain matrices. The library may choose the form of the weights (`any`), unless
  // its passes then disagree and a plain matrix saves a reorder in every step.
  Descriptors choose(const OpContext& context) const {
    constexpr auto kFloat = dnnl::memory::data_type::f32;
    const Layout* hint = find_hint(context, "w");
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
          return answer.rank_cost() + kReorderCost * reorders(context, answer, kept);
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
    const Desc kept = kept_weights(context, answer);
    const Desc forward = answer.forward.weights_desc();
    int count = same_memory(forward, kept) ? 0 : 1;
    if (answer.data) {
      const Desc data = answer.data->weights_desc();
      if (!same_memory(data, kept) && !same_memory(data, forward)) ++count;
    }
    return count + (incoming && !same_memory(kept, *incoming) ? 1 : 0);
  }

  // As in conv2d: the form of the gradient; without one, the form they come in.
  Desc kept_weights(const OpContext& context, const Descriptors& answer) const {
    if (answer.weights) return answer.weights->diff_weights_desc();
    if (const Layout* hint = find_hint(context, "w")) return onednn::describe(*hint, w_);
    return context.precision == Precision::kFp32 ? answer.forward.weights_desc() : w_;
  }

  void make_primitives(const Problem& p, const Descriptors& chosen) {
    std::vector<int> forward = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    if (p.bias) forward.push_back(DNNL_ARG_BIAS);
    forward_ = {device_, chosen.forward, forward};
    forward_weights_ = weights_.add(chosen.forward.weights_desc());
    if (chosen.weights) {
      std::vector<int> back = {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS};
      if (p.bias) back.push_back(DNNL_ARG_DIFF_BIAS);
      backward_weights_ = {device_, *chosen.weights, back};
    }
    if (chosen.data) {
      backward_data_ = {
          device_, *chosen.data, {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC}};
      data_weights_ = weights_.add(chosen.data->weights_desc());
    }
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
    return static_cast<std::byte*>(state()) + weights_.state_bytes();
  }

  OnednnDevice& device_;
  Desc x_, y_, w_, bias_;  // Canonical; bias may be empty.
  dnnl::memory::data_type type_ = dnnl::memory::data_type::undef;
  Weights weights_;
  std::size_t forward_weights_ = 0, data_weights_ = 0;  // Forms of weights_.
  Primitive forward_, backward_weights_, backward_data_, mask_;
  std::size_t mask_bytes_ = 0;
};

}  // namespace

void add_dense(OpTable& ops) {
  ops.add<Dense>([](const OpContext& context, const Dense::Problem& p) {
    return std::unique_ptr<OpObject>(std::make_unique<OnednnDense>(context, p));
  });
}

}  // namespace trainbench::onednn
