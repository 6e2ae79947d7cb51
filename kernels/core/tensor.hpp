#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>

namespace trainbench {

// Element types of canonical operands. Reduced precisions live inside a backend's own layouts.
enum class DType { kFloat32, kInt32, kUint32, kUint8 };

constexpr std::size_t size_of(DType type) { return type == DType::kUint8 ? 1 : 4; }

// Extents of a tensor of rank 0 to 4, outermost first.
class Shape {
 public:
  static constexpr std::size_t kMaxRank = 4;

  constexpr Shape() = default;
  constexpr Shape(std::initializer_list<std::int64_t> extents) {
    if (extents.size() > kMaxRank) throw std::length_error("a shape has at most 4 extents");
    for (const std::int64_t extent : extents) extents_[rank_++] = extent;
  }
  constexpr std::size_t rank() const { return rank_; }
  constexpr std::int64_t operator[](std::size_t axis) const { return extents_[axis]; }
  constexpr std::int64_t elements() const {
    std::int64_t product = 1;
    for (std::size_t i = 0; i < rank_; ++i) product *= extents_[i];
    return product;
  }
  // The shape of `batch` samples of this shape.
  constexpr Shape batched(std::int64_t batch) const {
    if (rank_ == kMaxRank) throw std::length_error("a sample has at most 3 extents");
    Shape result;
    result.rank_ = rank_ + 1;
    result.extents_[0] = batch;
    for (std::size_t i = 0; i < rank_; ++i) result.extents_[i + 1] = extents_[i];
    return result;
  }
  friend constexpr bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<std::int64_t, kMaxRank> extents_{};
  std::size_t rank_ = 0;
};

// "32x32x3".
std::string to_string(const Shape& shape);

// How an operand lies in memory. The default is the canonical form: dense, row-major,
// activations NHWC, conv weights HWIO, dense weights in x out. A backend may keep an operand in a
// form of its own: `name` then identifies that form completely, `bytes` is what the operand takes,
// and `handle` carries the backend's own description of it.
struct Layout {
  std::string name;
  std::size_t bytes = 0;
  std::shared_ptr<const void> handle;
  // Holds 32-bit floats, all of them the operand's values or zero. Only such a form can hold a
  // parameter for the whole run: the optimizer goes over its memory element by element.
  bool fp32 = true;

  bool canonical() const { return name.empty(); }
  friend bool operator==(const Layout& a, const Layout& b) {
    return a.name == b.name && a.bytes == b.bytes;
  }
};

// Memory somebody else owns, on the device of the op that it is handed to. `shape` is the
// canonical shape, whatever the layout. A null `data` stands for an operand that is absent.
struct Tensor {
  void* data = nullptr;
  Shape shape;
  DType type = DType::kFloat32;

  template <class T>
  T* as() const {
    static_assert(sizeof(T) == 1 || sizeof(T) == 4);
    return static_cast<T*>(data);
  }
  float* f32() const { return as<float>(); }
};

}  // namespace trainbench
