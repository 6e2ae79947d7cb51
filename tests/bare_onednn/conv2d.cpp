#include "kernels/ops/conv2d.hpp"

#include <unordered_map>

#include "kernels/core/op_table.hpp"
#include "kernels/onednn/device.hpp"
#include "kernels/onednn/layouts.hpp"

namespace trainbench::bare_onednn {
namespace {

using Arguments = std::unordered_map<int, dnnl::memory>;
using Forward = dnnl::convolution_forward;
using BackwardWeights = dnnl::convolution_backward_weights;
using BackwardData = dnnl::convolution_backward_data;

// Every format is left to the library, pass by pass; primitives are executed through the C++
// interface, with scratchpads of the library's own. The weights of backward_data are reordered once
// and for all: they are taken not to change.
class BareConv2d final : public Conv2d {
 public:
  BareConv2d(const OpContext& context, const Problem& p)
      : device_(onednn::as_onednn(context.device)),
        engine_(device_.engine()),
        stream_(engine_),
        x_(onednn::canonical_images(p.batch, p.height, p.width, p.in_channels)),
        y_(onednn::canonical_images(p.batch, p.out_height(), p.out_width(), p.out_channels)),
        w_(onednn::canonical_filters(p.window.size, p.in_channels, p.out_channels)),
        bias_(p.bias ? onednn::canonical_vector(p.out_channels) : onednn::Desc()) {
    device_.with_threads([&] { create(context, p); });
  }

  void forward(Tensor x, Tensor w, Tensor bias, Tensor y) override {
    Arguments arguments = {{DNNL_ARG_SRC, memory(forward_.src_desc(), x)},
                           {DNNL_ARG_WEIGHTS, memory(forward_.weights_desc(), w)},
                           {DNNL_ARG_DST, memory(forward_.dst_desc(), y)}};
    if (bias.data != nullptr) arguments.emplace(DNNL_ARG_BIAS, memory(bias_, bias));
    execute(run_forward_, arguments);
  }
  void backward_weights(Tensor x, Tensor dy, Tensor dw, Tensor dbias) override {
    Arguments arguments = {{DNNL_ARG_SRC, memory(weights_.src_desc(), x)},
                           {DNNL_ARG_DIFF_DST, memory(weights_.diff_dst_desc(), dy)},
                           {DNNL_ARG_DIFF_WEIGHTS, memory(weights_.diff_weights_desc(), dw)}};
    if (dbias.data != nullptr) arguments.emplace(DNNL_ARG_DIFF_BIAS, memory(bias_, dbias));
    execute(run_weights_, arguments);
  }
  void backward_data(Tensor dy, Tensor w, Tensor dx) override {
    if (!turned_) {
      turned_ = dnnl::memory(data_.weights_desc(), engine_);
      dnnl::memory kept = memory(forward_.weights_desc(), w);
      device_.with_threads([&] { dnnl::reorder(kept, turned_).execute(stream_, kept, turned_); });
    }
    execute(run_data_, {{DNNL_ARG_DIFF_DST, memory(data_.diff_dst_desc(), dy)},
                        {DNNL_ARG_WEIGHTS, turned_},
                        {DNNL_ARG_DIFF_SRC, memory(data_.diff_src_desc(), dx)}});
  }

  std::string implementation(Pass pass) const override {
    if (pass == Pass::kForward) return forward_.impl_info_str();
    return pass == Pass::kBackwardData ? data_.impl_info_str() : weights_.impl_info_str();
  }
  Layout layout(std::string_view operand) const override {
    if (operand == "x") return onednn::make_layout(forward_.src_desc(), x_);
    if (operand == "y") return onednn::make_layout(forward_.dst_desc(), y_);
    return operand == "w" ? onednn::make_layout(forward_.weights_desc(), w_) : Layout{};
  }

 private:
  void create(const OpContext& context, const Problem& p) {
    constexpr auto kDirect = dnnl::algorithm::convolution_direct;
    const auto any = [&](const onednn::Desc& desc) {
      return onednn::with_any_format(desc, onednn::data_type(context.precision));
    };
    const onednn::Dims strides{p.window.stride, p.window.stride};
    const onednn::Dims before{p.window.pad_before(p.height), p.window.pad_before(p.width)};
    const onednn::Dims after{p.window.pad_total(p.height) - before[0],
                             p.window.pad_total(p.width) - before[1]};
    forward_ = {engine_, dnnl::prop_kind::forward_training,
                kDirect, any(x_),
                any(w_), bias_,
                any(y_), strides,
                before,  after};
    weights_ = {engine_, kDirect, any(x_), any(w_), bias_,
                any(y_), strides, before,  after,   forward_};
    run_forward_ = Forward(forward_);
    run_weights_ = BackwardWeights(weights_);
    if (context.input_gradient) {
      data_ = {engine_, kDirect, any(x_), any(w_), any(y_), strides, before, after, forward_};
      run_data_ = BackwardData(data_);
    }
    const bool agree = weights_.src_desc() == forward_.src_desc() &&
                       weights_.diff_dst_desc() == forward_.dst_desc() &&
                       weights_.diff_weights_desc() == forward_.weights_desc() &&
                       (!context.input_gradient || (data_.diff_src_desc() == forward_.src_desc() &&
                                                    data_.diff_dst_desc() == forward_.dst_desc()));
    if (!agree) throw Unsupported("the passes want operands in different forms");
  }

  dnnl::memory memory(const onednn::Desc& desc, const Tensor& operand) const {
    return {desc, engine_, operand.data};
  }
  void execute(const dnnl::primitive& primitive, const Arguments& arguments) {
    device_.with_threads([&] { primitive.execute(stream_, arguments); });
  }

  onednn::OnednnDevice& device_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  onednn::Desc x_, y_, w_, bias_;  // Canonical; bias may be empty.
  Forward::primitive_desc forward_;
  BackwardWeights::primitive_desc weights_;
  BackwardData::primitive_desc data_;
  Forward run_forward_;
  BackwardWeights run_weights_;
  BackwardData run_data_;
  dnnl::memory turned_;
};

}  // namespace

void add_conv2d(OpTable& ops) { ops.add<Conv2d, BareConv2d>(); }

}  // namespace trainbench::bare_onednn
