#pragma once

#include <cstdint>

#include "kernels/ops/adam.hpp"
#include "kernels/ops/dropout.hpp"
#include "kernels/ops/window.hpp"

// Simple loops over host memory, shared by the ops and by the whole-epoch program.
namespace trainbench::template_backend {

// A window slid over images; channel counts are those in memory, padding included. A dense layer is
// a window of 1 over images of 1 x 1.
struct Sliding {
  std::int64_t batch = 1, height = 1, width = 1, in = 1, out = 1;
  Window window = {};

  std::int64_t out_height() const { return window.output(height); }
  std::int64_t out_width() const { return window.output(width); }
  std::int64_t inputs() const { return batch * height * width * in; }
  std::int64_t outputs() const { return batch * out_height() * out_width() * out; }
  std::int64_t weights() const { return window.size * window.size * in * out; }
};

void conv_forward(const Sliding& s, const float* x, const float* w, const float* bias, float* y);
void conv_backward_weights(const Sliding& s, const float* x, const float* dy, float* dw,
                           float* dbias);  // dbias may be null.
// `transposed` has room for the weights.
void conv_backward_data(const Sliding& s, const float* dy, const float* w, float* transposed,
                        float* dx);

// `winners`, which may be null, gets the position in x of each element of y.
void pool_forward(const Sliding& s, const float* x, float* y, std::int32_t* winners);
void pool_backward(const Sliding& s, const std::int32_t* winners, const float* dy, float* dx);

void relu_forward(std::int64_t count, const float* x, float* y);
void relu_backward(std::int64_t count, const float* dy, const float* y, float* dx);

struct LossResult {
  double loss = 0;
  std::int32_t correct = 0;
};
// y may be x.
LossResult softmax_forward(std::int64_t batch, std::int64_t classes, const float* x,
                           const std::int32_t* labels, float* y, std::int32_t* predicted);
void softmax_backward(std::int64_t batch, std::int64_t classes, const float* y,
                      const std::int32_t* labels, float* dx);

// One update; `t` counts from 1.
void adam_update(const Adam::Hyperparameters& hyper, std::uint32_t t, std::int64_t count,
                 const float* g, float* w, float* m, float* v);

// The factor of element i in the step that follows `updates` updates: 0 where dropped.
inline float dropout_factor(const Dropout::Problem& p, std::uint32_t updates, std::int64_t i) {
  const bool dropped = Dropout::dropped(p, updates, static_cast<std::uint64_t>(i));
  return dropped ? 0.0f : Dropout::scale(p.rate);
}

}  // namespace trainbench::template_backend
