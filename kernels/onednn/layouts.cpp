#include "kernels/onednn/layouts.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <stdexcept>

namespace trainbench::onednn {
namespace {

using DataType = dnnl::memory::data_type;
using Tag = dnnl::memory::format_tag;

std::string type_name(DataType type) {
  switch (type) {
    case DataType::f32:
      return "f32";
    case DataType::bf16:
      return "bf16";
    default:
      return "type" + std::to_string(static_cast<int>(type));
  }
}

}  // namespace

DataType data_type(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      return DataType::f32;
    case Precision::kBf16:
      return DataType::bf16;
    case Precision::kTf32:
      break;
  }
  throw dnnl::error(dnnl_unimplemented, "it computes in fp32 and bf16 on CPUs");
}

Desc canonical_images(std::int64_t batch, std::int64_t height, std::int64_t width,
                      std::int64_t channels) {
  return {Dims{batch, channels, height, width}, DataType::f32, Tag::nhwc};
}

Desc canonical_filters(std::int64_t size, std::int64_t in, std::int64_t out) {
  return {Dims{out, in, size, size}, DataType::f32, Tag::hwio};
}

Desc canonical_matrix(std::int64_t rows, std::int64_t columns) {
  return {Dims{rows, columns}, DataType::f32, Tag::ab};
}

Desc canonical_weights(std::int64_t in, std::int64_t out) {
  return {Dims{out, in}, DataType::f32, Tag::ba};
}

Desc canonical_vector(std::int64_t elements) { return {Dims{elements}, DataType::f32, Tag::a}; }

Desc canonical_shape(const Shape& shape) {
  static constexpr Tag kRowMajor[] = {Tag::a, Tag::a, Tag::ab, Tag::abc, Tag::abcd};
  Dims dims;
  for (std::size_t i = 0; i < shape.rank(); ++i) dims.push_back(shape[i]);
  if (dims.empty()) dims.push_back(1);
  return {dims, DataType::f32, kRowMajor[shape.rank()]};
}

Desc with_type(const Desc& desc, DataType type) {
  return {desc.get_dims(), type, desc.get_strides()};
}

Desc with_format(const Desc& desc, DataType type, Tag format) {
  return {desc.get_dims(), type, format};
}

Desc with_any_format(const Desc& desc, DataType type) { return {desc.get_dims(), type, Tag::any}; }

std::string format_name(const Desc& desc) {
  const Dims strides = desc.get_strides();
  const Dims block_sizes = desc.get_inner_blks(), block_dims = desc.get_inner_idxs();
  std::vector<std::size_t> order(strides.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return strides[a] > strides[b]; });
  std::string name;
  for (const std::size_t dim : order) {
    const bool blocked =
        std::ranges::find(block_dims, static_cast<std::int64_t>(dim)) != block_dims.end();
    name += static_cast<char>((blocked ? 'A' : 'a') + static_cast<char>(dim));
  }
  for (std::size_t i = 0; i < block_sizes.size(); ++i) {
    name += std::to_string(block_sizes[i]);
    name += static_cast<char>('a' + block_dims[i]);
  }
  return name + ":" + type_name(desc.get_data_type());
}

bool same_memory(const Desc& a, const Desc& b) {
  if (a == b) return true;
  if (a.get_data_type() != b.get_data_type() || a.get_dims() != b.get_dims()) return false;
  if (a.get_inner_nblks() != 0 || b.get_inner_nblks() != 0) return false;
  const Dims dims = a.get_dims(), a_strides = a.get_strides(), b_strides = b.get_strides();
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] != 1 && a_strides[i] != b_strides[i]) return false;
  }
  return a.get_size() == b.get_size();
}

Layout make_layout(const Desc& desc, const Desc& canonical) {
  if (same_memory(desc, canonical)) return {};
  return {.name = format_name(desc),
          .bytes = desc.get_size(),
          .handle = std::make_shared<const Form>(Form{desc, canonical}),
          .fp32 = desc.get_data_type() == DataType::f32};
}

const Form* form_of(const Layout& layout) { return static_cast<const Form*>(layout.handle.get()); }

Desc describe(const Layout& layout, const Desc& canonical) {
  if (layout.canonical()) return canonical;
  const Form* form = form_of(layout);
  if (form == nullptr) throw std::logic_error(layout.name + " is not a layout of oneDNN's");
  return form->desc;
}

}  // namespace trainbench::onednn
