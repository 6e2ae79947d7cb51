#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "kernels/core/op.hpp"
#include "tests/template_backend/device.hpp"

namespace trainbench::template_backend {

// The nearest number of 8 bits, ties to even, as bf16 has it.
inline float rounded_to_bf16(float value) {
  if (std::isnan(value)) return value;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>((bits + 0x7FFFu + (bits >> 16 & 1u)) & 0xFFFF0000u);
}

// The form of this backend's operands: channels padded to a multiple of 8 with zeros, weights on
// their input side, too; in bf16, all values rounded. It stays a secret of the backend: the harness
// sees a name and a size.
struct Padded {
  static constexpr std::int64_t kMultiple = 8;

  Shape canonical;
  std::int64_t outer = 1, rows = 1, columns = 1;  // Canonical extents, seen as three.
  std::int64_t stored_rows = 1, stored_columns = 1;
  bool rounded = false;

  static std::int64_t padded(std::int64_t extent) {
    return (extent + kMultiple - 1) / kMultiple * kMultiple;
  }
  static Padded channels(const Shape& shape, Precision precision) {
    const std::int64_t columns = shape[shape.rank() - 1];
    const bool rounded = precision == Precision::kBf16;
    return {shape, shape.elements() / columns, 1, columns, 1, padded(columns), rounded};
  }
  static Padded weights(const Shape& shape, Precision precision) {
    const std::int64_t rows = shape[shape.rank() - 2], columns = shape[shape.rank() - 1];
    const std::int64_t outer = shape.elements() / (rows * columns);
    const bool rounded = precision == Precision::kBf16;
    return {shape, outer, rows, columns, padded(rows), padded(columns), rounded};
  }
  // The form behind a layout; null for the canonical one. Throws for the layout of a stranger.
  static std::shared_ptr<const Padded> of(const Layout& layout) {
    if (layout.canonical()) return nullptr;
    if (!layout.name.starts_with("template_pad8:")) {
      throw std::invalid_argument("the layout " + layout.name + " is not one of this backend");
    }
    return std::static_pointer_cast<const Padded>(layout.handle);
  }

  std::int64_t stored() const { return outer * stored_rows * stored_columns; }
  // Where element i of the canonical order lies.
  std::int64_t index(std::int64_t i) const {
    const std::int64_t block = i / (rows * columns), row = i / columns % rows;
    return (block * stored_rows + row) * stored_columns + i % columns;
  }
  Layout layout() const {
    return {.name = "template_pad8:" + to_string(canonical) + (stored_rows > rows ? ":rows" : "") +
                    (rounded ? ":bf16" : ""),
            .bytes = static_cast<std::size_t>(stored()) * sizeof(float),
            .handle = std::make_shared<const Padded>(*this),
            .fp32 = !rounded};
  }

  // The values of an output.
  float* out(const TemplateDevice& device, const Tensor& tensor) const {
    return device.floats(tensor.data, stored());
  }
  // Once an output is complete: what does not fit the form is lost.
  void settle(float* values) const {
    if (!rounded) return;
    for (std::int64_t i = 0; i < stored(); ++i) values[i] = rounded_to_bf16(values[i]);
  }
  // The values of an input; throws std::logic_error when its padding is not zero, or when it holds
  // what does not fit the form.
  const float* in(const TemplateDevice& device, const Tensor& tensor) const {
    const float* values = device.floats(tensor.data, stored());
    for (std::int64_t i = 0; i < stored(); ++i) {
      const bool padding =
          i % stored_columns >= columns || i / stored_columns % stored_rows >= rows;
      if (padding && values[i] != 0) {
        throw std::logic_error("padding of " + layout().name + " is not zero");
      }
      if (rounded && rounded_to_bf16(values[i]) != values[i] && !std::isnan(values[i])) {
        throw std::logic_error("a value of " + layout().name + " is not rounded");
      }
    }
    return values;
  }
};

}  // namespace trainbench::template_backend
