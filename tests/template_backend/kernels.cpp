#include "tests/template_backend/kernels.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trainbench::template_backend {
namespace {

// Calls body(output pixel, input pixel, tap) for every tap that lies inside its image.
template <class Body>
void for_each_tap(const Sliding& s, Body&& body) {
  const std::int64_t rows = s.out_height(), columns = s.out_width();
  for (std::int64_t pixel = 0; pixel < s.batch * rows * columns; ++pixel) {
    const std::int64_t n = pixel / (rows * columns);
    const std::int64_t top = s.window.start(s.height, pixel / columns % rows);
    const std::int64_t left = s.window.start(s.width, pixel % columns);
    for (std::int64_t tap = 0; tap < s.window.size * s.window.size; ++tap) {
      const std::int64_t row = top + tap / s.window.size, column = left + tap % s.window.size;
      if (row < 0 || row >= s.height || column < 0 || column >= s.width) continue;
      body(pixel, (n * s.height + row) * s.width + column, tap);
    }
  }
}

// target[j] += factor * source[j].
void add_scaled(std::int64_t count, float factor, const float* __restrict source,
                float* __restrict target) {
  for (std::int64_t j = 0; j < count; ++j) target[j] += factor * source[j];
}

}  // namespace

void conv_forward(const Sliding& s, const float* x, const float* w, const float* bias, float* y) {
  for (std::int64_t i = 0; i < s.outputs(); ++i) y[i] = bias == nullptr ? 0.0f : bias[i % s.out];
  for_each_tap(s, [&](std::int64_t pixel, std::int64_t from, std::int64_t tap) {
    for (std::int64_t i = 0; i < s.in; ++i) {
      add_scaled(s.out, x[from * s.in + i], w + (tap * s.in + i) * s.out, y + pixel * s.out);
    }
  });
}

void conv_backward_weights(const Sliding& s, const float* x, const float* dy, float* dw,
                           float* dbias) {
  std::fill(dw, dw + s.weights(), 0.0f);
  for_each_tap(s, [&](std::int64_t pixel, std::int64_t from, std::int64_t tap) {
    for (std::int64_t i = 0; i < s.in; ++i) {
      add_scaled(s.out, x[from * s.in + i], dy + pixel * s.out, dw + (tap * s.in + i) * s.out);
    }
  });
  if (dbias == nullptr) return;
  std::fill(dbias, dbias + s.out, 0.0f);
  for (std::int64_t i = 0; i < s.outputs(); ++i) dbias[i % s.out] += dy[i];
}

void conv_backward_data(const Sliding& s, const float* dy, const float* w, float* transposed,
                        float* dx) {
  for (std::int64_t i = 0; i < s.weights(); ++i) {
    const std::int64_t tap = i / (s.in * s.out), row = i / s.out % s.in, column = i % s.out;
    transposed[(tap * s.out + column) * s.in + row] = w[i];
  }
  std::fill(dx, dx + s.inputs(), 0.0f);
  for_each_tap(s, [&](std::int64_t pixel, std::int64_t to, std::int64_t tap) {
    for (std::int64_t o = 0; o < s.out; ++o) {
      add_scaled(s.in, dy[pixel * s.out + o], transposed + (tap * s.out + o) * s.in,
                 dx + to * s.in);
    }
  });
}

void pool_forward(const Sliding& s, const float* x, float* y, std::int32_t* winners) {
  std::fill(y, y + s.outputs(), -std::numeric_limits<float>::infinity());
  for_each_tap(s, [&](std::int64_t pixel, std::int64_t from, std::int64_t) {
    for (std::int64_t c = 0; c < s.out; ++c) {
      float& best = y[pixel * s.out + c];
      const float candidate = x[from * s.in + c];
      if (candidate <= best) continue;
      best = candidate;
      if (winners != nullptr) {
        winners[pixel * s.out + c] = static_cast<std::int32_t>(from * s.in + c);
      }
    }
  });
}

void pool_backward(const Sliding& s, const std::int32_t* winners, const float* dy, float* dx) {
  std::fill(dx, dx + s.inputs(), 0.0f);
  for (std::int64_t i = 0; i < s.outputs(); ++i) dx[winners[i]] += dy[i];
}

void relu_forward(std::int64_t count, const float* x, float* y) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = std::max(x[i], 0.0f);
}

void relu_backward(std::int64_t count, const float* dy, const float* y, float* dx) {
  for (std::int64_t i = 0; i < count; ++i) dx[i] = y[i] > 0 ? dy[i] : 0.0f;
}

LossResult softmax_forward(std::int64_t batch, std::int64_t classes, const float* x,
                           const std::int32_t* labels, float* y, std::int32_t* predicted) {
  LossResult result;
  for (std::int64_t b = 0; b < batch; ++b) {
    const float* row = x + b * classes;
    const std::int64_t best = std::max_element(row, row + classes) - row;
    const double maximum = row[best];
    double sum = 0;
    for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(row[c] - maximum);
    const bool valid = labels[b] >= 0 && labels[b] < classes;
    result.loss +=
        valid ? maximum - row[labels[b]] + std::log(sum) : std::numeric_limits<double>::quiet_NaN();
    result.correct += labels[b] == best ? 1 : 0;
    predicted[b] = static_cast<std::int32_t>(best);
    for (std::int64_t c = 0; c < classes; ++c) {
      y[b * classes + c] = static_cast<float>(std::exp(row[c] - maximum) / sum);
    }
  }
  return result;
}

void softmax_backward(std::int64_t batch, std::int64_t classes, const float* y,
                      const std::int32_t* labels, float* dx) {
  for (std::int64_t i = 0; i < batch * classes; ++i) {
    const float target = labels[i / classes] == i % classes ? 1.0f : 0.0f;
    dx[i] = (y[i] - target) / static_cast<float>(batch);
  }
}

void adam_update(const Adam::Hyperparameters& hyper, std::uint32_t t, std::int64_t count,
                 const float* g, float* w, float* m, float* v) {
  const auto rate =
      static_cast<float>(hyper.learning_rate * std::sqrt(1 - std::pow(hyper.beta2, t)) /
                         (1 - std::pow(hyper.beta1, t)));
  const auto beta1 = static_cast<float>(hyper.beta1), beta2 = static_cast<float>(hyper.beta2);
  const auto rest1 = static_cast<float>(1 - hyper.beta1);
  const auto rest2 = static_cast<float>(1 - hyper.beta2);
  const auto epsilon = static_cast<float>(hyper.epsilon);
  for (std::int64_t i = 0; i < count; ++i) {
    m[i] = beta1 * m[i] + rest1 * g[i];
    v[i] = beta2 * v[i] + rest2 * g[i] * g[i];
    w[i] -= rate * m[i] / (std::sqrt(v[i]) + epsilon);
  }
}

}  // namespace trainbench::template_backend
