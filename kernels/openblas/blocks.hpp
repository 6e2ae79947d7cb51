#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/openblas/rows.hpp"
#include "kernels/ops/conv2d.hpp"

// How a convolution is cut into blocks that fit the L2 cache.
namespace trainbench::openblas {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {  // b > 0; a may be negative.
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

// A kernel of 1 with stride 1 sees the whole batch as one tall image of one column.
Geometry forward_geometry(const Conv2d::Problem& p);

// For stride 1: dx is the convolution of dy with the weights turned by 180 degrees.
Geometry turned(const Geometry& g);

// How work on `batch` images of `rows` rows is cut: items are bands of rows of one image, or whole
// images; a block is one band or up to `group` images.
struct Tiling {
  std::int64_t batch, rows, bands, group;
  std::int64_t grain;  // Items that are worth a thread.

  std::int64_t items() const { return batch * bands; }
  std::int64_t longest_band() const { return ceil_div(rows, bands); }
};

// For blocks that need `row_bytes` of memory for each row of `row_width` pixels; `flops` of all
// items.
Tiling tile(std::int64_t batch, std::int64_t rows, std::int64_t row_width, std::int64_t row_bytes,
            double flops, int threads);

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

}  // namespace trainbench::openblas
