#include "kernels/ops/avg_pool2d.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/core/op_table.hpp"
#include "kernels/native/native_op.hpp"
#include "kernels/native/simd_target.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/native/avg_pool2d.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/native/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace trainbench::native {
namespace HWY_NAMESPACE {
namespace {

HWY_INLINE float share(Window::Range rows, Window::Range columns) {
  return 1.0f / static_cast<float>(rows.count() * columns.count());
}

// Rows first .. last - 1 of y, counted over the batch.
void average_rows(const AvgPool2d::Problem& p, const float* x, float* y, std::int64_t first,
                  std::int64_t last) {
  const std::int64_t row_stride = p.width * p.channels;
  for (std::int64_t row = first; row < last; ++row) {
    const float* image = x + row / p.out_height() * p.height * row_stride;
    const Window::Range rows = p.window.inside(p.height, row % p.out_height());
    for (std::int64_t q = 0; q < p.out_width(); ++q) {
      const Window::Range columns = p.window.inside(p.width, q);
      const float scale = share(rows, columns);
      float* target = y + (row * p.out_width() + q) * p.channels;
      for_vectors(p.channels, [=](auto d, std::size_t c) HWY_ATTR {
        auto sum = hn::Zero(d);
        for (std::int64_t i = rows.first; i < rows.last; ++i) {
          const float* pixel = image + i * row_stride + columns.first * p.channels + c;
          for (std::int64_t j = columns.first; j < columns.last; ++j, pixel += p.channels) {
            sum = hn::Add(sum, hn::LoadU(d, pixel));
          }
        }
        hn::StoreU(hn::Mul(sum, hn::Set(d, scale)), d, target + c);
      });
    }
  }
}

// Rows first .. last - 1 of dx, counted over the batch: each collects from all windows above it, so
// that threads never share a row, however the windows overlap.
void spread_rows(const AvgPool2d::Problem& p, const float* dy, float* dx, std::int64_t first,
                 std::int64_t last) {
  const Window& w = p.window;
  const std::int64_t row_elements = p.width * p.channels;
  for (std::int64_t row = first; row < last; ++row) {
    const std::int64_t n = row / p.height;
    const Window::Range over = w.covering(p.height, row % p.height);
    float* target = dx + row * row_elements;
    std::memset(target, 0, static_cast<std::size_t>(row_elements) * sizeof(float));
    for (std::int64_t out_row = over.first; out_row < over.last; ++out_row) {
      const Window::Range rows = w.inside(p.height, out_row);
      for (std::int64_t q = 0; q < p.out_width(); ++q) {
        const Window::Range columns = w.inside(p.width, q);
        const float scale = share(rows, columns);
        const float* slope = dy + ((n * p.out_height() + out_row) * p.out_width() + q) * p.channels;
        for (std::int64_t j = columns.first; j < columns.last; ++j) {
          float* pixel = target + j * p.channels;
          for_vectors(p.channels, [=](auto d, std::size_t c) HWY_ATTR {
            const auto part = hn::Mul(hn::LoadU(d, slope + c), hn::Set(d, scale));
            hn::StoreU(hn::Add(hn::LoadU(d, pixel + c), part), d, pixel + c);
          });
        }
      }
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trainbench::native
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trainbench::native {
namespace {

HWY_EXPORT(average_rows);
HWY_EXPORT(spread_rows);

class NativeAvgPool2d final : public AvgPool2d {
 public:
  NativeAvgPool2d(const OpContext& context, const Problem& problem)
      : team_(as_host(context.device).team()), problem_(problem) {}

  void forward(Tensor x, Tensor y) override {
    for_rows(problem_.out_height(), [&](std::int64_t first, std::int64_t last) {
      HWY_DYNAMIC_DISPATCH(average_rows)(problem_, x.f32(), y.f32(), first, last);
    });
  }
  void backward_data(Tensor dy, Tensor dx) override {
    for_rows(problem_.height, [&](std::int64_t first, std::int64_t last) {
      HWY_DYNAMIC_DISPATCH(spread_rows)(problem_, dy.f32(), dx.f32(), first, last);
    });
  }
  std::string implementation(Pass) const override { return simd_implementation(); }

 private:
  // Over `rows` rows per image, on one thread per some 1 us of work.
  template <class Body>
  void for_rows(std::int64_t rows, const Body& body) {
    constexpr std::int64_t kGrain = 16384;  // Elements.
    const std::int64_t per_image = problem_.height * problem_.width * problem_.channels;
    const std::int64_t grain = std::max<std::int64_t>(1, kGrain * rows / per_image);
    parallel_for(team_, problem_.batch * rows, grain,
                 [&](std::int64_t first, std::int64_t last, int) { body(first, last); });
  }

  ThreadTeam& team_;
  Problem problem_;
};

}  // namespace

void add_avg_pool2d(OpTable& ops) { ops.add<AvgPool2d, NativeAvgPool2d>(); }

}  // namespace trainbench::native
#endif
