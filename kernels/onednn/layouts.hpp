#pragma once

#include <cstdint>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <vector>

#include "kernels/core/op.hpp"

// Between the suite's layouts and oneDNN's memory descriptors. A descriptor has logical dimensions
// (NCHW for activations, OIHW or OI for weights, whatever the memory is like), a canonical operand
// has the extents of its memory.
namespace trainbench::onednn {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;

// Throws dnnl::error for a precision that the library does not have on CPUs.
dnnl::memory::data_type data_type(Precision precision);

// Canonical operands: 32-bit floats, dense.
Desc canonical_images(std::int64_t batch, std::int64_t height, std::int64_t width,
                      std::int64_t channels);                                  // NHWC.
Desc canonical_filters(std::int64_t size, std::int64_t in, std::int64_t out);  // HWIO.
Desc canonical_matrix(std::int64_t rows, std::int64_t columns);  // Activations of dense layers.
Desc canonical_weights(std::int64_t in, std::int64_t out);       // In x out, logically OI.
Desc canonical_vector(std::int64_t elements);
Desc canonical_shape(const Shape& shape);  // Dimensions in the order of the memory.

// The same dimensions in another type, in a format, in any format that a primitive likes best.
Desc with_type(const Desc& desc, dnnl::memory::data_type type);
Desc with_format(const Desc& desc, dnnl::memory::data_type type, dnnl::memory::format_tag format);
Desc with_any_format(const Desc& desc, dnnl::memory::data_type type);

// "aBcd16b:bf16": dimensions by letters, outermost first, upper case where blocked, then the
// blocks, then the type.
std::string format_name(const Desc& desc);

// Whether the same bytes mean the same values; strides of extents of 1 do not matter.
bool same_memory(const Desc& a, const Desc& b);

// An operand in oneDNN's form; canonical where that is the same memory.
Layout make_layout(const Desc& desc, const Desc& canonical);

// What a layout of this backend describes: itself, and the canonical form of the same operand.
struct Form {
  Desc desc, canonical;
};
// Null for a layout that is not this backend's.
const Form* form_of(const Layout& layout);
// The descriptor of an operand in a layout that is canonical or this backend's.
Desc describe(const Layout& layout, const Desc& canonical);

}  // namespace trainbench::onednn
