#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace trainbench {

// Names of element types in tensor files.
template <class T>
constexpr std::string_view kTensorType = "";
template <>
inline constexpr std::string_view kTensorType<float> = "F32";
template <>
inline constexpr std::string_view kTensorType<double> = "F64";
template <>
inline constexpr std::string_view kTensorType<std::uint8_t> = "U8";
template <>
inline constexpr std::string_view kTensorType<std::int32_t> = "I32";
template <>
inline constexpr std::string_view kTensorType<std::uint32_t> = "U32";

// An array in host memory, row-major.
struct NamedTensor {
  std::string name, type;  // "conv1.w", "F32".
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;

  std::int64_t elements() const;
  // "F32 (3, 3, 3, 32)".
  std::string describe() const;
  // Throws std::runtime_error unless the elements are of type T.
  template <class T>
  std::span<const T> values() const {
    if (type != kTensorType<T>) throw_not(kTensorType<T>);
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }

 private:
  [[noreturn]] void throw_not(std::string_view wanted) const;
};

template <class T>
NamedTensor make_tensor(std::string name, std::vector<std::int64_t> shape,
                        std::span<const T> values) {
  const auto bytes = std::as_bytes(values);
  return {std::move(name), std::string(kTensorType<T>), std::move(shape),
          std::vector<std::byte>(bytes.begin(), bytes.end())};
}

// The content of a file in the safetensors format, which PyTorch, Keras, JAX and NumPy read
// through its package: a length, a JSON header with names, types, shapes and places, the arrays.
struct TensorFile {
  std::map<std::string, std::string> metadata;
  std::vector<NamedTensor> tensors;

  const NamedTensor* find(std::string_view name) const;  // Null: there is none.
  // Throws std::runtime_error, listing what there is.
  const NamedTensor& at(std::string_view name) const;
};

// Throws std::runtime_error: the file, what is wrong with it and what to do.
TensorFile read_tensor_file(const std::string& path);
// What such a file consists of. Throws std::logic_error for tensors that are none.
std::string tensor_file_bytes(const TensorFile& file);

}  // namespace trainbench
