#include "kernels/ops/conv2d.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "kernels/core/op_table.hpp"
#include "kernels/openblas/rows.hpp"
#include "kernels/openblas/sgemm.hpp"

namespace trainbench::openblas {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {  // b > 0; a may be negative.
  return a > 0 ? (a + b - 1) / b : -(-a / b);
}

struct Span {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return std::max<std::int64_t>(end - begin, 0); }
};

// A convolution whose zero padding may differ from what a Window says: reads `in`, writes `out`.
struct Geometry {
  std::int64_t batch, in_height, in_width, in_channels, out_height, out_width, out_channels;
  std::int64_t size, stride, pad_top, pad_left;

  std::int64_t window_length() const { return size * in_channels; }  // Of one row of a window.
  std::int64_t input_row() const { return in_width * in_channels; }
  std::int64_t output_row() const { return out_width * out_channels; }
  std::int64_t expanded_row() const { return out_width * window_length(); }
  RowWindows row_windows() const {
    return {in_width, in_channels, out_width, size, stride, pad_left};
  }
  // Output rows whose windows have row r on an input row within `inputs`.
  Span outputs(std::int64_t r, Span inputs) const {
    const auto output = [&](std::int64_t input) {
      return std::clamp<std::int64_t>(ceil_div(input + pad_top - r, stride), 0, out_height);
    };
    return {output(inputs.begin), output(inputs.end)};
  }
  // The input row under row r of the windows of an output row; may lie in the padding.
  std::int64_t input(std::int64_t output, std::int64_t r) const {
    return output * stride + r - pad_top;
  }
  bool pointwise() const { return size == 1 && stride == 1; }

  // Multiply-adds of the products of one pass, times two. Rows of taps outside the image are
  // skipped, columns of taps outside are not.
  double flops() const {
    std::int64_t rows = 0;
    for (std::int64_t r = 0; r < size; ++r) rows += outputs(r, {0, in_height}).size();
    return 2.0 * static_cast<double>(batch * rows * out_width) *
           static_cast<double>(window_length() * out_channels);
  }
};

Geometry forward_geometry(const Conv2d::Problem& p) {
  if (p.window.size == 1 && p.window.stride == 1) {
    // The pixels of the whole batch are alike: one tall image of one column.
    const std::int64_t pixels = p.batch * p.height * p.width;
    return {1, pixels, 1, p.in_channels, pixels, 1, p.out_channels, 1, 1, 0, 0};
  }
  return {p.batch,
          p.height,
          p.width,
          p.in_channels,
          p.out_height(),
          p.out_width(),
          p.out_channels,
          p.window.size,
          p.window.stride,
          p.window.pad_before(p.height),
          p.window.pad_before(p.width)};
}

// For stride 1: dx is the convolution of dy with the weights turned by 180 degrees.
Geometry turned(const Geometry& g) {
  return {g.batch,
          g.out_height,
          g.out_width,
          g.out_channels,
          g.in_height,
          g.in_width,
          g.in_channels,
          g.size,
          1,
          g.size - 1 - g.pad_top,
          g.size - 1 - g.pad_left};
}

std::int64_t level2_cache_bytes() {
  constexpr long kUnknown = 256 << 10;
  const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return bytes > 0 ? bytes : kUnknown;
}

// How work on `batch` images of `rows` rows is cut: items are bands of rows of one image, or whole
// images; a block is one band or up to `group` images.
struct Tiling {
  std::int64_t batch, rows, bands, group;
  std::int64_t grain;  // Items that are worth a thread.

  std::int64_t items() const { return batch * bands; }
  std::int64_t longest_band() const { return ceil_div(rows, bands); }
};

// `row_width` in pixels, `row_bytes` of scratch, `flops` of the whole.
Tiling tile(std::int64_t batch, std::int64_t rows, std::int64_t row_width, std::int64_t row_bytes,
            double flops, int threads) {
  // sgemm is near its best from some 256 rows on; more than L2 holds slows the copies.
  constexpr std::int64_t kPixels = 256, kFewest = 64;
  constexpr double kFlopsPerThread = 2e5;  // Some microseconds.
  const std::int64_t fitting = std::max<std::int64_t>(level2_cache_bytes() / 2 / row_bytes, 1);
  const std::int64_t block_rows =
      std::clamp<std::int64_t>(std::min(fitting, kPixels / row_width), 1, rows * batch);
  Tiling t{batch, rows, ceil_div(rows, std::min(block_rows, rows)), 1, 1};
  // Few items are cut further where that lets the threads share them evenly.
  const auto uneven = [&] { return t.items() % threads != 0 && t.items() < 8 * threads; };
  while (uneven() && t.bands < rows && rows / (t.bands + 1) * row_width >= kFewest) ++t.bands;
  if (t.bands == 1) t.group = std::max<std::int64_t>(block_rows / rows, 1);
  const double item_flops = std::max(flops / static_cast<double>(t.items()), 1.0);
  t.grain = std::max<std::int64_t>(static_cast<std::int64_t>(kFlopsPerThread / item_flops), 1);
  return t;
}

struct Block {
  std::int64_t first_image, images;
  Span rows;
};

// Calls body(block) for the blocks of items begin .. end - 1.
template <class Body>
void for_blocks(const Tiling& t, std::int64_t begin, std::int64_t end, const Body& body) {
  if (t.bands > 1) {
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t band = item % t.bands;
      body(Block{item / t.bands, 1, {t.rows * band / t.bands, t.rows * (band + 1) / t.bands}});
    }
    return;
  }
  const std::int64_t blocks = ceil_div(end - begin, t.group);
  for (std::int64_t i = 0; i < blocks; ++i) {
    const std::int64_t first = begin + (end - begin) * i / blocks;
    body(Block{first, begin + (end - begin) * (i + 1) / blocks - first, {0, t.rows}});
  }
}

// Rows of several images in the order of the products: row by row, in a row image by image. Rows
// may come in `stride` sequences, one after the other, so that every stride-th row is a neighbour.
struct RowOrder {
  std::int64_t images, row_length, stride;
  Span rows;

  std::int64_t capacity() const { return stride * per_phase() * images * row_length; }
  std::int64_t offset(std::int64_t row, std::int64_t image = 0) const {
    const std::int64_t i = row - rows.begin;
    return ((i % stride * per_phase() + i / stride) * images + image) * row_length;
  }

 private:
  std::int64_t per_phase() const { return ceil_div(rows.size(), stride); }
};

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
    expanded_floats_ = aligned(expanded_capacity(forward_, by_output_));
    output_floats_ = aligned(by_output_.longest_band() * by_output_.group * forward_.output_row());
    if (inference_) return;
    if (forward_.stride == 1) {
      expanded_floats_ = std::max(expanded_floats_, aligned(expanded_capacity(data_, by_input_)));
      output_floats_ = std::max(
          output_floats_, aligned(by_input_.longest_band() * by_input_.group * data_.output_row()));
    } else {
      const std::int64_t band = by_input_.longest_band(), group = by_input_.group;
      const std::int64_t outputs = ceil_div(band + forward_.size, forward_.stride) + 1;
      expanded_floats_ = std::max(
          expanded_floats_, aligned((band + forward_.stride) * group * forward_.expanded_row()));
      output_floats_ = std::max(output_floats_, aligned(outputs * group * forward_.output_row()));
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
    const std::int64_t used = team_.parts(by_output_.items(), by_output_.grain);
    team_.parallel_for(by_output_.items(), by_output_.grain,
                       [&](std::int64_t begin, std::int64_t end, int t) {
                         float* weights = t == 0 ? dw.f32() : partial_gradient(t);
                         float* biases = t == 0 ? dbias.f32() : weights + weight_floats();
                         fill_rows(nullptr, 1, weight_floats(), weights);
                         if (dbias.data != nullptr)
                           fill_rows(nullptr, 1, forward_.out_channels, biases);
                         for_blocks(by_output_, begin, end, [&](const Block& block) {
                           add_block_gradient(block, x.f32(), dy.f32(), t, weights,
                                              dbias.data != nullptr ? biases : nullptr);
                         });
                       });
    constexpr std::int64_t kGrain = 1 << 14;
    team_.parallel_for(weight_floats(), kGrain, [&](std::int64_t begin, std::int64_t end, int) {
      for (int t = 1; t < used; ++t) {
        add(partial_gradient(t) + begin, end - begin, dw.f32() + begin);
      }
    });
    if (dbias.data == nullptr) return;
    for (int t = 1; t < used; ++t) {
      add(partial_gradient(t) + weight_floats(), forward_.out_channels, dbias.f32());
    }
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
  // Of the largest block.
  static std::int64_t expanded_capacity(const Geometry& g, const Tiling& t) {
    if (g.pointwise()) return 0;
    const std::int64_t rows = std::min((t.longest_band() - 1) * g.stride + g.size, g.in_height);
    return RowOrder{t.group, g.expanded_row(), g.stride, {0, rows}}.capacity();
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

void add_conv2d(OpTable& ops) {
  ops.add<Conv2d>(
      [](const OpContext& context, const Conv2d::Problem& p) -> std::unique_ptr<OpObject> {
        return std::make_unique<OpenBlasConv2d>(context, p);
      });
}

}  // namespace trainbench::openblas
