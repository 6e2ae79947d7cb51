#include "kernels/openblas/blocks.hpp"

#include <unistd.h>

namespace trainbench::openblas {
namespace {

std::int64_t level2_cache_bytes() {
  constexpr long kUnknown = 256 << 10;
  const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return bytes > 0 ? bytes : kUnknown;
}

}  // namespace

Geometry forward_geometry(const Conv2d::Problem& p) {
  if (p.window.size == 1 && p.window.stride == 1) {
    const std::int64_t pixels = p.batch * p.height * p.width;
    return {.batch = 1,
            .in_height = pixels,
            .in_width = 1,
            .in_channels = p.in_channels,
            .out_height = pixels,
            .out_width = 1,
            .out_channels = p.out_channels,
            .size = 1,
            .stride = 1,
            .pad_top = 0,
            .pad_left = 0};
  }
  return {.batch = p.batch,
          .in_height = p.height,
          .in_width = p.width,
          .in_channels = p.in_channels,
          .out_height = p.out_height(),
          .out_width = p.out_width(),
          .out_channels = p.out_channels,
          .size = p.window.size,
          .stride = p.window.stride,
          .pad_top = p.window.pad_before(p.height),
          .pad_left = p.window.pad_before(p.width)};
}

Geometry turned(const Geometry& g) {
  return {.batch = g.batch,
          .in_height = g.out_height,
          .in_width = g.out_width,
          .in_channels = g.out_channels,
          .out_height = g.in_height,
          .out_width = g.in_width,
          .out_channels = g.in_channels,
          .size = g.size,
          .stride = 1,
          .pad_top = g.size - 1 - g.pad_top,
          .pad_left = g.size - 1 - g.pad_left};
}

Tiling tile(std::int64_t batch, std::int64_t rows, std::int64_t row_width, std::int64_t row_bytes,
            double flops, int threads) {
  // sgemm is near its best from some 256 rows on; more than L2 holds slows the copies.
  constexpr std::int64_t kPixels = 256, kFewest = 64;
  constexpr double kFlopsPerThread = 5e5;  // A few microseconds.
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

}  // namespace trainbench::openblas
