#include "kernels/ops/conv2d.hpp"

#include <array>
#include <memory>
#include <optional>

#include "kernels/core/op_table.hpp"
#include "kernels/onednn/negotiation.hpp"
#include "kernels/onednn/weights.hpp"

namespace trainbench::onednn {
namespace {

using Tag = dnnl::memory::format_tag;

// The formats to ask for; `any` leaves the choice to the library.
struct Wish {
  Desc x, w, dw, y;
};

struct Descriptors {
  dnnl::convolution_forward::primitive_desc forward;
  std::optional<dnnl::convolution_backward_weights::primitive_desc> weights;
  std::optional<dnnl::convolution_backward_data::primitive_desc> data;

  // Plain loops and matrix products are much slower than what the library generates for a shape.
  int rank_cost() const {
    int sum = rank(forward.impl_info_str());
    if (weights) sum += rank(weights->impl_info_str());
    if (data) sum += rank(data->impl_info_str());
    return kRankCost * sum;
  }
};

bool is_padded(const Desc& desc) { return desc.get_padded_dims() != desc.get_dims(); }

// The problem in oneDNN's terms.
struct Geometry {
  Desc x, w, bias, y;  // Canonical; bias may be empty.
  Dims strides, before, after;

  explicit Geometry(const Conv2d::Problem& p)
      : x(canonical_images(p.batch, p.height, p.width, p.in_channels)),
        w(canonical_filters(p.window.size, p.in_channels, p.out_channels)),
        bias(p.bias ? canonical_vector(p.out_channels) : Desc()),
        y(canonical_images(p.batch, p.out_height(), p.out_width(), p.out_channels)),
        strides{p.window.stride, p.window.stride},
        before{p.window.pad_before(p.height), p.window.pad_before(p.width)},
        after{pad_after(p.window, p.height), pad_after(p.window, p.width)} {}

 private:
  static std::int64_t pad_after(const Window& window, std::int64_t input) {
    return window.pad_total(input) - window.pad_before(input);
  }
};

// Direct convolution. Activations, gradients and weights are in the formats that the library's
// primitives agree on; see choose().
class OnednnConv2d final : public Conv2d {
 public:
  OnednnConv2d(const OpContext& context, const Problem& p)
      : device_(as_onednn(context.device)), geometry_(p) {
    creating(device_, describe_op(context, p), [&] {
      const Descriptors chosen = choose(context);
      x_ = chosen.forward.src_desc();
      y_ = chosen.forward.dst_desc();
      weights_ = Weights(device_, kept_weights(context, chosen));
      make_primitives(p, chosen);
    });
  }

  void forward(Tensor x, Tensor w, Tensor bias, Tensor y) override {
    void* weights = weights_.get(forward_weights_, w.data, state(), scratch());
    const std::array data{x.data, weights, y.data, bias.data};
    forward_.run(std::span(data).first(bias.data == nullptr ? 3 : 4), scratch());
  }
  void backward_weights(Tensor x, Tensor dy, Tensor dw, Tensor dbias) override {
    const std::array data{x.data, dy.data, dw.data, dbias.data};
    backward_weights_.run(std::span(data).first(dbias.data == nullptr ? 3 : 4), scratch());
  }
  void backward_data(Tensor dy, Tensor w, Tensor dx) override {
    void* weights = weights_.get(data_weights_, w.data, state(), scratch());
    backward_data_.run(std::array{dy.data, weights, dx.data}, scratch());
  }
  void parameters_changed() override { weights_.changed(); }

  std::string implementation(Pass pass) const override {
    const auto with = [this](const Primitive& primitive, std::size_t form) {
      return primitive.implementation() + weights_.describe_copy(form);
    };
    if (pass == Pass::kForward) return with(forward_, forward_weights_);
    if (pass == Pass::kBackwardData) return with(backward_data_, data_weights_);
    return backward_weights_.implementation();
  }
  Layout layout(std::string_view operand) const override {
    if (operand == "x") return make_layout(x_, geometry_.x);
    if (operand == "y") return make_layout(y_, geometry_.y);
    return operand == "w" ? make_layout(weights_.kept(), geometry_.w) : Layout{};
  }
  std::size_t state_bytes() const override { return weights_.state_bytes(); }
  std::size_t scratch_bytes() const override {
    return std::max({forward_.scratch_bytes(), backward_weights_.scratch_bytes(),
                     backward_data_.scratch_bytes(), weights_.scratch_bytes()});
  }

 private:
  static std::string describe_op(const OpContext& context, const Problem& p) {
    return "conv2d " + describe(p) + " in " + std::string(to_string(context.precision));
  }

  // The library chooses (`any`), but it does so pass by pass: for few channels its choice for
  // forward leaves only plain loops for the way back. Then fixed formats are tried, too. Of equally
  // good answers the one wins that takes x and the weights as they come, and gives y without
  // padding channels: with few of them, other layers could not go on with that.
  Descriptors choose(const OpContext& context) const {
    const auto type = data_type(context.precision);
    const Layout* x_hint = find_hint(context, "x");
    const Layout* w_hint = find_hint(context, "w");
    // A reorder of a model's input is cheap beside convolutions in a worse form.
    const bool take_as_is = x_hint != nullptr && (context.input_gradient || !x_hint->canonical());
    std::optional<Desc> incoming;
    if (take_as_is) incoming = onednn::describe(*x_hint, geometry_.x);
    const std::optional<Desc> kept =
        w_hint == nullptr ? std::nullopt : std::optional(onednn::describe(*w_hint, geometry_.w));
    return negotiate<Descriptors>(
        wishes(context, type, incoming, kept),
        [&](const Wish& wish) { return describe_wish(context, wish); },
        [&](const Descriptors& answer) {
          int cost = answer.rank_cost();
          if (is_padded(answer.forward.dst_desc())) cost += kReorderCost;
          if (incoming && !same_memory(answer.forward.src_desc(), *incoming)) cost += kReorderCost;
          if (kept && !same_memory(*kept, kept_weights(context, answer))) cost += kReorderCost;
          return cost;
        });
  }

  std::vector<Wish> wishes(const OpContext& context, dnnl::memory::data_type type,
                           const std::optional<Desc>& incoming,
                           const std::optional<Desc>& kept) const {
    constexpr auto kFloat = dnnl::memory::data_type::f32;
    const Desc any_x = with_any_format(geometry_.x, type),
               any_y = with_any_format(geometry_.y, type);
    std::vector<std::pair<Desc, Desc>> images = {{any_x, any_y}};
    if (incoming) images.emplace_back(*incoming, any_y);
    for (const Tag tag : {Tag::nhwc, Tag::nChw16c, Tag::nChw8c, Tag::nchw}) {
      images.emplace_back(with_format(geometry_.x, type, tag), with_format(geometry_.y, type, tag));
    }
    const Desc any_w = with_any_format(geometry_.w, type),
               any_dw = with_any_format(geometry_.w, kFloat);
    std::vector<Wish> result;
    for (const auto& [x, y] : images) {
      const bool as_kept = context.inference && type == kFloat;
      if (kept) result.push_back({x, as_kept ? *kept : any_w, *kept, y});
      result.push_back({x, any_w, any_dw, y});
    }
    return result;
  }

  Descriptors describe_wish(const OpContext& context, const Wish& wish) const {
    const dnnl::engine& engine = device_.engine();
    constexpr auto kDirect = dnnl::algorithm::convolution_direct;
    const Geometry& g = geometry_;
    Descriptors result{.forward = {engine,
                                   context.inference ? dnnl::prop_kind::forward_inference
                                                     : dnnl::prop_kind::forward_training,
                                   kDirect, wish.x, wish.w, g.bias, wish.y, g.strides, g.before,
                                   g.after, attributes()},
                       .weights = std::nullopt,
                       .data = std::nullopt};
    if (context.inference) return result;
    const Desc x = result.forward.src_desc(), y = result.forward.dst_desc();
    result.weights.emplace(engine, kDirect, x, wish.dw, g.bias, y, g.strides, g.before, g.after,
                           result.forward, attributes());
    if (!context.input_gradient) return result;
    const Desc any_w = with_any_format(g.w, x.get_data_type());
    result.data.emplace(engine, kDirect, x, any_w, y, g.strides, g.before, g.after, result.forward,
                        attributes());
    return result;
  }

  // Training keeps the weights in the form of their gradient. Without a gradient it is the form
  // they come in, or that of the forward pass if it has 32-bit floats.
  Desc kept_weights(const OpContext& context, const Descriptors& answer) const {
    if (answer.weights) return answer.weights->diff_weights_desc();
    if (const Layout* hint = find_hint(context, "w")) return onednn::describe(*hint, geometry_.w);
    return context.precision == Precision::kFp32 ? answer.forward.weights_desc() : geometry_.w;
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

  OnednnDevice& device_;
  Geometry geometry_;
  Desc x_, y_;
  Weights weights_;
  std::size_t forward_weights_ = 0, data_weights_ = 0;  // Forms of weights_.
  Primitive forward_, backward_weights_, backward_data_;
};

}  // namespace

void add_conv2d(OpTable& ops) {
  ops.add<Conv2d>([](const OpContext& context, const Conv2d::Problem& p) {
    return std::unique_ptr<OpObject>(std::make_unique<OnednnConv2d>(context, p));
  });
}

}  // namespace trainbench::onednn
