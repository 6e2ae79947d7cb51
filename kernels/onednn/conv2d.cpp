#include "kernels/ops/conv2d.hpp"

#include <array>
#include <memory>
#include <optional>

#include "kernels/core/op_table.hpp"
#include "kernels/onednn/layer_primitives.hpp"
#include "kernels/onednn/negotiation.hpp"

namespace trainbench::onednn {
namespace {

using Tag = dnnl::memory::format_tag;

// The formats to ask for; `any` leaves the choice to the library.
struct Wish {
  Desc x, w, dw, y;
};

using Descriptors = LayerDescriptors<dnnl::convolution_forward, dnnl::convolution_backward_weights,
                                     dnnl::convolution_backward_data>;

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
      primitives_ = {device_, chosen, chosen.kept_weights(context, geometry_.w), p.bias};
    });
  }

  void forward(Tensor x, Tensor w, Tensor bias, Tensor y) override {
    primitives_.forward(x.data, w.data, bias.data, y.data, state(), scratch());
  }
  void backward_weights(Tensor x, Tensor dy, Tensor dw, Tensor dbias) override {
    primitives_.backward_weights(x.data, dy.data, dw.data, dbias.data, scratch());
  }
  void backward_data(Tensor dy, Tensor w, Tensor dx) override {
    primitives_.backward_data(dy.data, w.data, dx.data, state(), scratch());
  }
  void parameters_changed() override { primitives_.parameters_changed(); }

  std::string implementation(Pass pass) const override { return primitives_.implementation(pass); }
  Layout layout(std::string_view operand) const override {
    if (operand == "x") return make_layout(x_, geometry_.x);
    if (operand == "y") return make_layout(y_, geometry_.y);
    return operand == "w" ? make_layout(primitives_.kept_weights(), geometry_.w) : Layout{};
  }
  std::size_t state_bytes() const override { return primitives_.state_bytes(); }
  std::size_t scratch_bytes() const override { return primitives_.scratch_bytes(); }

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
    const Layout* x_hint = context.find_hint("x");
    const Layout* w_hint = context.find_hint("w");
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
          // Plain loops and matrix products are much slower than what is generated for a shape.
          int cost = kRankCost * answer.sum(rank);
          if (is_padded(answer.forward.dst_desc())) cost += kReorderCost;
          if (incoming && !same_memory(answer.forward.src_desc(), *incoming)) cost += kReorderCost;
          if (kept && !same_memory(*kept, answer.kept_weights(context, geometry_.w)))
            cost += kReorderCost;
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

  OnednnDevice& device_;
  Geometry geometry_;
  Desc x_, y_;
  LayerPrimitives primitives_;
};

}  // namespace

void add_conv2d(OpTable& ops) { ops.add<Conv2d, OnednnConv2d>(); }

}  // namespace trainbench::onednn
