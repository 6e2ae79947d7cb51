#include "kernels/onednn/layer_primitives.hpp"

#include <algorithm>
#include <array>

namespace trainbench::onednn {

void LayerPrimitives::forward(void* x, void* w, void* bias, void* y, void* state, void* scratch) {
  const std::array data{x, weights_.get(forward_form_, w, state, scratch), y, bias};
  forward_.run(std::span(data).first(bias == nullptr ? 3 : 4), scratch);
}

void LayerPrimitives::backward_weights(void* x, void* dy, void* dw, void* dbias,
                                       void* scratch) const {
  const std::array data{x, dy, dw, dbias};
  backward_weights_.run(std::span(data).first(dbias == nullptr ? 3 : 4), scratch);
}

void LayerPrimitives::backward_data(void* dy, void* w, void* dx, void* state, void* scratch) {
  const std::array data{dy, weights_.get(data_form_, w, state, scratch), dx};
  backward_data_.run(data, scratch);
}

std::string LayerPrimitives::implementation(Pass pass) const {
  if (pass == Pass::kForward) {
    return forward_.implementation() + weights_.describe_copy(forward_form_);
  }
  if (pass == Pass::kBackwardData) {
    return backward_data_.implementation() + weights_.describe_copy(data_form_);
  }
  return backward_weights_.implementation();
}

std::size_t LayerPrimitives::scratch_bytes() const {
  return std::max({forward_.scratch_bytes(), backward_weights_.scratch_bytes(),
                   backward_data_.scratch_bytes(), weights_.scratch_bytes()});
}

}  // namespace trainbench::onednn
