#include "kernels/ops/conv2d.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include "kernels/core/op_table.hpp"
#include "kernels/openblas/blocks.hpp"
#include "kernels/openblas/rows.hpp"
#include "kernels/openblas/sgemm.hpp"

namespace trainbench::openblas {
namespace {

// Memory for one thread's blocks, in floats.
struct ThreadScratch {
  float* expanded;  // Windows of input rows, one row of a window wide.
  float* outputs;   // Output rows of several images in the order of `expanded`.
};

// Convolution by single-threaded sgemm calls on blocks that fit the L2 cache, split over the team.
//
// The usual im2col copies every pixel size^2 times. Here a block expands each input row once, by
// the `size` columns of a window only: row h of the image becomes out_width x (size * channels).
// For each row r of the window, the factors of consecutive output rows are consecutive expanded
// rows, so the product is a sum over r of sgemm calls on shifted views of one buffer, and rows of
// taps in the padding are never computed. Images of a block lie side by side within a row, so that
// small images make products of as many rows as large ones.
class OpenBlasConv2d final : public Conv2d {
 public:
  OpenBlasConv2d(const OpContext& context, const Problem& p)
      : team_(context.device),
        inference_(context.inference),
        forward_(forward_geometry(p)),
        data_(forward_.stride == 1 ? turned(forward_) : forward_),
        by_output_(tile_outputs(forward_)),
        by_input_(forward_.stride == 1 ? tile_outputs(data_) : tile_inputs(forward_)) {
    reserve_outputs(forward_, by_output_);
    if (inference_) return;
    if (forward_.stride == 1) {
      reserve_outputs(data_, by_input_);
    } else {
      reserve_inputs();
    }
  }

  std::string implementation(Pass) const override {
    return team_.describe(forward_.pointwise() ? "sgemm" : "im2col+sgemm");
  }
  double executed_flops(Pass pass) const override {
    return pass == Pass::kBackwardData ? data_.flops() : forward_.flops();
  }
  std::size_t scratch_bytes() const override {
    const std::int64_t threads = team_.size();
    std::int64_t floats = threads * (expanded_floats_ + output_floats_);
    if (!inference_) {
      floats += aligned(weight_floats());           // Turned weights.
      floats += (threads - 1) * gradient_floats();  // Sums of all threads but the first.
    }
    return static_cast<std::size_t>(floats) * sizeof(float);
  }

  void forward(Tensor x, Tensor w, Tensor bias, Tensor y) override {
    convolve(forward_, by_output_, x.f32(), w.f32(), bias.f32(), y.f32());
  }

  void backward_data(Tensor dy, Tensor w, Tensor dx) override {
    if (forward_.stride == 1) {
      turn_weights(w.f32());
      convolve(data_, by_input_, dy.f32(), turned_weights(), nullptr, dx.f32());
    } else {
      scatter(dy.f32(), w.f32(), dx.f32());
    }
  }

  // Every thread sums its blocks apart, the first one in place; then all are added in the order of
  // the threads, so that results repeat exactly.
  void backward_weights(Tensor x, Tensor dy, Tensor dw, Tensor dbias) override {
    const Tiling& tiling = by_output_;
    team_.parallel_for(tiling.items(), tiling.grain,
                       [&](std::int64_t begin, std::int64_t end, int t) {
                         float* weights = t == 0 ? dw.f32() : partial_gradient(t);
                         float* biases = t == 0 ? dbias.f32() : weights + weight_floats();
                         fill_rows(nullptr, 1, weight_floats(), weights);
                         if (dbias.data != nullptr) {
                           fill_rows(nullptr, 1, forward_.out_channels, biases);
                         }
                         for_blocks(tiling, begin, end, [&](const Block& block) {
                           add_block_gradient(block, x.f32(), dy.f32(), t, weights,
                                              dbias.data != nullptr ? biases : nullptr);
                         });
                       });
    add_partial_gradients(static_cast<int>(team_.parts(tiling.items(), tiling.grain)), dw, dbias);
  }

 private:
  static std::int64_t aligned(std::int64_t floats) { return ceil_div(floats, 16) * 16; }

  Tiling tile_outputs(const Geometry& g) const {
    const std::int64_t row_floats =
        g.output_row() + (g.pointwise() ? g.input_row() : g.stride * g.expanded_row());
    return tile(g.batch, g.out_height, g.out_width, 4 * row_floats, g.flops(), team_.size());
  }
  Tiling tile_inputs(const Geometry& g) const {
    const std::int64_t row_floats = g.expanded_row() + g.output_row() / g.stride;
    return tile(g.batch, g.in_height, g.out_width, 4 * row_floats, g.flops(), team_.size());
  }
  void reserve(std::int64_t expanded, std::int64_t outputs) {
    expanded_floats_ = std::max(expanded_floats_, aligned(expanded));
    output_floats_ = std::max(output_floats_, aligned(outputs));
  }
  // For the largest block of output rows and the input rows that its windows meet.
  void reserve_outputs(const Geometry& g, const Tiling& t) {
    const std::int64_t rows = t.longest_band();
    const std::int64_t inputs = std::min((rows - 1) * g.stride + g.size, g.in_height);
    const RowOrder expanded{t.group, g.expanded_row(), g.stride, {0, inputs}};
    reserve(g.pointwise() ? 0 : expanded.capacity(), rows * t.group * g.output_row());
  }
  // For the largest block of input rows and the output rows whose windows meet them.
  void reserve_inputs() {
    const std::int64_t rows = by_input_.longest_band(), group = by_input_.group;
    const std::int64_t outputs = ceil_div(rows + forward_.size, forward_.stride) + 1;
    const RowOrder expanded{group, forward_.expanded_row(), forward_.stride, {0, rows}};
    reserve(expanded.capacity(), outputs * group * forward_.output_row());
  }

  ThreadScratch thread_scratch(int thread) const {
    float* base = static_cast<float*>(scratch()) + thread * (expanded_floats_ + output_floats_);
    return {base, base + expanded_floats_};
  }
  float* turned_weights() const { return thread_scratch(team_.size()).expanded; }
  std::int64_t weight_floats() const {
    return forward_.size * forward_.window_length() * forward_.out_channels;
  }
  std::int64_t gradient_floats() const { return aligned(weight_floats() + forward_.out_channels); }
  float* partial_gradient(int thread) const {
    return turned_weights() + aligned(weight_floats()) + (thread - 1) * gradient_floats();
  }

  // Adds the sums of threads 1 .. threads - 1 to those of thread 0.
  void add_partial_gradients(int threads, Tensor dw, Tensor dbias) {
    constexpr std::int64_t kGrain = 1 << 14;
    team_.parallel_for(weight_floats(), kGrain, [&](std::int64_t begin, std::int64_t end, int) {
      for (int t = 1; t < threads; ++t) {
        add(partial_gradient(t) + begin, end - begin, dw.f32() + begin);
      }
    });
    if (dbias.data == nullptr) return;
    for (int t = 1; t < threads; ++t) {
      add(partial_gradient(t) + weight_floats(), forward_.out_channels, dbias.f32());
    }
  }

  // turned[size-1-r][size-1-s][o][i] = w[r][s][i][o].
  void turn_weights(const float* w) {
    const std::int64_t taps = forward_.size * forward_.size;
    const std::int64_t tap = forward_.in_channels * forward_.out_channels;
    constexpr std::int64_t kGrain = 1 << 13;
    team_.parallel_for(taps, std::max<std::int64_t>(kGrain / tap, 1),
                       [&](std::int64_t begin, std::int64_t end, int) {
                         for (std::int64_t i = begin; i < end; ++i) {
                           transpose(forward_.in_channels, forward_.out_channels, w + i * tap,
                                     turned_weights() + (taps - 1 - i) * tap);
                         }
                       });
  }

  // Input rows that the windows of output rows `outputs` meet.
  static Span input_rows(const Geometry& g, Span outputs) {
    return {std::max<std::int64_t>(g.input(outputs.begin, 0), 0),
            std::min(g.input(outputs.end - 1, g.size - 1) + 1, g.in_height)};
  }

  // Expands the input rows of a block; returns where they lie, which is `in` itself if pointwise.
  static const float* expand_block(const Geometry& g, const Block& block, const RowOrder& order,
                                   const float* in, float* buffer) {
    if (g.pointwise()) return in + order.rows.begin * g.input_row();
    const RowWindows windows = g.row_windows();
    for (std::int64_t image = 0; image < block.images; ++image) {
      const float* pixels = in + (block.first_image + image) * g.in_height * g.input_row();
      for (std::int64_t h = order.rows.begin; h < order.rows.end; ++h) {
        // With a stride larger than the window, some rows meet none.
        if ((h + g.pad_top) % g.stride >= g.size) continue;
        expand(windows, pixels + h * g.input_row(), buffer + order.offset(h, image));
      }
    }
    return buffer;
  }

  // Copies rows of a block between their place in the tensor and the order of the products.
  static void gather_rows(const Block& block, const RowOrder& order, std::int64_t height,
                          const float* tensor, float* buffer) {
    for (std::int64_t row = order.rows.begin; row < order.rows.end; ++row) {
      for (std::int64_t image = 0; image < block.images; ++image) {
        std::memcpy(buffer + order.offset(row, image),
                    tensor + ((block.first_image + image) * height + row) * order.row_length,
                    static_cast<std::size_t>(order.row_length) * sizeof(float));
      }
    }
  }
  static void scatter_rows(const Block& block, const RowOrder& order, std::int64_t height,
                           const float* buffer, float* tensor) {
    for (std::int64_t image = 0; image < block.images; ++image) {
      for (std::int64_t row = order.rows.begin; row < order.rows.end; ++row) {
        std::memcpy(tensor + ((block.first_image + image) * height + row) * order.row_length,
                    buffer + order.offset(row, image),
                    static_cast<std::size_t>(order.row_length) * sizeof(float));
      }
    }
  }

  // Calls product(r, inputs, outputs, pixels) for each row r of the window: `pixels` consecutive
  // windows from offset `inputs` of the expanded rows on belong to as many consecutive output
  // pixels from offset `outputs` on.
  template <class Product>
  static void for_window_rows(const Geometry& g, const RowOrder& expanded, const RowOrder& outputs,
                              const Product& product) {
    for (std::int64_t r = 0; r < g.size; ++r) {
      const Span reached = g.outputs(r, expanded.rows);
      const Span rows{std::max(reached.begin, outputs.rows.begin),
                      std::min(reached.end, outputs.rows.end)};
      if (rows.size() == 0) continue;
      product(r, expanded.offset(g.input(rows.begin, r)), outputs.offset(rows.begin),
              rows.size() * outputs.images * g.out_width);
    }
  }

  // out = in convolved with w (size x size x in_channels x out_channels) + bias, which may be null.
  void convolve(const Geometry& g, const Tiling& tiling, const float* in, const float* w,
                const float* bias, float* out) {
    team_.parallel_for(tiling.items(), tiling.grain,
                       [&](std::int64_t begin, std::int64_t end, int thread) {
                         for_blocks(tiling, begin, end, [&](const Block& block) {
                           convolve_block(g, block, in, w, bias, out, thread_scratch(thread));
                         });
                       });
  }

  static void convolve_block(const Geometry& g, const Block& block, const float* in, const float* w,
                             const float* bias, float* out, const ThreadScratch& scratch) {
    const RowOrder order{block.images, g.expanded_row(), g.stride, input_rows(g, block.rows)};
    const RowOrder outputs{block.images, g.output_row(), 1, block.rows};
    const float* expanded = expand_block(g, block, order, in, scratch.expanded);
    // The rows of one image lie in the order of the products.
    float* sums = block.images > 1 ? scratch.outputs
                                   : out + (block.first_image * g.out_height + block.rows.begin) *
                                               g.output_row();
    fill_rows(bias, block.rows.size() * block.images * g.out_width, g.out_channels, sums);
    for_window_rows(g, order, outputs,
                    [&](std::int64_t r, std::int64_t from, std::int64_t to, std::int64_t pixels) {
                      sgemm(pixels, g.out_channels, g.window_length(),
                            {expanded + from, g.window_length()},
                            {w + r * g.window_length() * g.out_channels, g.out_channels}, true,
                            sums + to, g.out_channels);
                    });
    if (block.images > 1) scatter_rows(block, outputs, g.out_height, sums, out);
  }

  void add_block_gradient(const Block& block, const float* x, const float* dy, int thread,
                          float* weights, float* biases) {
    const Geometry& g = forward_;
    const ThreadScratch scratch = thread_scratch(thread);
    const RowOrder order{block.images, g.expanded_row(), g.stride, input_rows(g, block.rows)};
    const RowOrder outputs{block.images, g.output_row(), 1, block.rows};
    const float* expanded = expand_block(g, block, order, x, scratch.expanded);
    const float* slopes =
        dy + (block.first_image * g.out_height + block.rows.begin) * g.output_row();
    if (biases != nullptr) {
      // Images of a block are neighbours in dy, too: their bands are whole images.
      add_columns(slopes, block.rows.size() * block.images * g.out_width, g.out_channels,
                  g.out_channels, biases);
    }
    if (block.images > 1) {
      gather_rows(block, outputs, g.out_height, dy, scratch.outputs);
      slopes = scratch.outputs;
    }
    for_window_rows(g, order, outputs,
                    [&](std::int64_t r, std::int64_t from, std::int64_t to, std::int64_t pixels) {
                      sgemm(g.window_length(), g.out_channels, pixels,
                            {expanded + from, g.window_length(), true},
                            {slopes + to, g.out_channels}, true,
                            weights + r * g.window_length() * g.out_channels, g.out_channels);
                    });
  }

  // The adjoint of convolve for any stride: blocks are bands of dx; the gradients of all windows of
  // an input row are summed over the rows of the window, then overlapping windows are added up.
  void scatter(const float* dy, const float* w, float* dx) {
    team_.parallel_for(by_input_.items(), by_input_.grain,
                       [&](std::int64_t begin, std::int64_t end, int thread) {
                         for_blocks(by_input_, begin, end, [&](const Block& block) {
                           scatter_block(block, dy, w, dx, thread_scratch(thread));
                         });
                       });
  }

  void scatter_block(const Block& block, const float* dy, const float* w, float* dx,
                     const ThreadScratch& scratch) const {
    const Geometry& g = forward_;
    const RowOrder expanded{block.images, g.expanded_row(), g.stride, block.rows};
    const Span first = g.outputs(g.size - 1, block.rows), last = g.outputs(0, block.rows);
    const RowOrder outputs{block.images, g.output_row(), 1, {first.begin, last.end}};
    const float* slopes = dy + (block.first_image * g.out_height + first.begin) * g.output_row();
    if (block.images > 1) {
      gather_rows(block, outputs, g.out_height, dy, scratch.outputs);
      slopes = scratch.outputs;
    }
    fill_rows(nullptr, 1, expanded.capacity(), scratch.expanded);
    for_window_rows(g, expanded, outputs,
                    [&](std::int64_t r, std::int64_t from, std::int64_t to, std::int64_t pixels) {
                      sgemm(pixels, g.window_length(), g.out_channels,
                            {slopes + to, g.out_channels},
                            {w + r * g.window_length() * g.out_channels, g.out_channels, true},
                            true, scratch.expanded + from, g.window_length());
                    });
    for (std::int64_t image = 0; image < block.images; ++image) {
      float* pixels = dx + (block.first_image + image) * g.in_height * g.input_row();
      for (std::int64_t h = block.rows.begin; h < block.rows.end; ++h) {
        collapse(g.row_windows(), scratch.expanded + expanded.offset(h, image),
                 pixels + h * g.input_row());
      }
    }
  }

  SgemmTeam team_;
  bool inference_;
  Geometry forward_;
  Geometry data_;  // Of backward_data: turned for stride 1, else forward's, whose adjoint it is.
  Tiling by_output_, by_input_;  // Of forward and backward_weights; of backward_data.
  std::int64_t expanded_floats_ = 0, output_floats_ = 0;  // Scratch of one thread.
};

}  // namespace

void add_conv2d(OpTable& ops) { ops.add<Conv2d, OpenBlasConv2d>(); }

}  // namespace trainbench::openblas
