#pragma once

#include <cstdint>

// Passes over rows of floats around the sgemm calls, for the best instruction set of this CPU.
namespace trainbench::openblas {

// How a window slides along one row of pixels. Rows are `pixels` x `channels`; the windows of a row
// are `positions` x `size` x `channels`: the pixels each window meets, zeros beyond the row's ends.
struct RowWindows {
  std::int64_t pixels, channels;
  std::int64_t positions, size, stride;
  std::int64_t pad;  // Positions before the row's first pixel that the first window covers.
};
void expand(const RowWindows& windows, const float* row, float* expanded);
// The adjoint: row = the sum of what every window holds of each of its pixels.
void collapse(const RowWindows& windows, const float* expanded, float* row);

// Writes `values` (columns), or zeros when null, to each of `rows` rows of `out`.
void fill_rows(const float* values, std::int64_t rows, std::int64_t columns, float* out);

// out[r][c] += bias[c], then, with `relu`, max(out, 0); bias may be null. Rows are `stride` apart.
void add_bias(const float* bias, bool relu, std::int64_t rows, std::int64_t columns,
              std::int64_t stride, float* out);

// dz = dy where y > 0, else 0; rows of all three are `stride` apart.
void mask_gradient(const float* dy, const float* y, std::int64_t rows, std::int64_t columns,
                   std::int64_t stride, float* dz);

// sums[c] += sum over r of matrix[r][c]; rows are `stride` apart.
void add_columns(const float* matrix, std::int64_t rows, std::int64_t columns, std::int64_t stride,
                 float* sums);

// out[i] += in[i].
void add(const float* in, std::int64_t count, float* out);

}  // namespace trainbench::openblas
