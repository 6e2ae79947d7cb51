#pragma once

#include <optional>
#include <string>

#include "kernels/onednn/weights.hpp"

namespace trainbench::onednn {

// What a layer settled with the library, by the primitive descriptors of its three passes; those of
// the way back are absent where they will not run.
template <class Forward, class BackwardWeights, class BackwardData>
struct LayerDescriptors {
  typename Forward::primitive_desc forward;
  std::optional<typename BackwardWeights::primitive_desc> weights;
  std::optional<typename BackwardData::primitive_desc> data;

  // The sum of cost(implementation) over the passes.
  template <class Cost>
  int sum(const Cost& cost) const {
    int total = cost(forward.impl_info_str());
    if (weights) total += cost(weights->impl_info_str());
    if (data) total += cost(data->impl_info_str());
    return total;
  }

  // Training keeps the weights in the form of their gradient. Without a gradient it is the form
  // they come in, or that of the forward pass if it has 32-bit floats.
  Desc kept_weights(const OpContext& context, const Desc& canonical) const {
    if (weights) return weights->diff_weights_desc();
    if (const Layout* hint = context.find_hint("w")) return describe(*hint, canonical);
    return context.precision == Precision::kFp32 ? forward.weights_desc() : canonical;
  }
};

// The primitives of a layer with weights and perhaps a bias, and the copies of its weights.
class LayerPrimitives {
 public:
  LayerPrimitives() = default;
  template <class Descriptors>
  LayerPrimitives(OnednnDevice& device, const Descriptors& chosen, const Desc& kept, bool bias)
      : weights_(device, kept) {
    const auto with_bias = [bias](std::vector<int> arguments, int argument) {
      if (bias) arguments.push_back(argument);
      return arguments;
    };
    forward_ = {device, chosen.forward,
                with_bias({DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}, DNNL_ARG_BIAS)};
    forward_form_ = weights_.add(chosen.forward.weights_desc());
    if (chosen.weights) {
      backward_weights_ = {
          device, *chosen.weights,
          with_bias({DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS}, DNNL_ARG_DIFF_BIAS)};
    }
    if (chosen.data) {
      backward_data_ = {
          device, *chosen.data, {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC}};
      data_form_ = weights_.add(chosen.data->weights_desc());
    }
  }

  // `state` holds the copies of the weights; bias and dbias may be null.
  void forward(void* x, void* w, void* bias, void* y, void* state, void* scratch);
  void backward_weights(void* x, void* dy, void* dw, void* dbias, void* scratch) const;
  void backward_data(void* dy, void* w, void* dx, void* state, void* scratch);
  void parameters_changed() { weights_.changed(); }

  const Desc& kept_weights() const { return weights_.kept(); }
  std::string implementation(Pass pass) const;
  std::size_t state_bytes() const { return weights_.state_bytes(); }
  std::size_t scratch_bytes() const;

 private:
  Weights weights_;
  std::size_t forward_form_ = 0, data_form_ = 0;  // Of weights_.
  Primitive forward_, backward_weights_, backward_data_;
};

}  // namespace trainbench::onednn
