#pragma once

#include <memory>
#include <span>

#include "kernels/core/op_table.hpp"

namespace trainbench {

// Moves operands between canonical form in host memory and a backend's form on its device, by that
// backend's own reorder. Allocates; not for timed code.
class LayoutConverter {
 public:
  LayoutConverter(const OpTable& ops, Device& device) : ops_(ops), device_(device) {}

  // Bytes that an operand takes in a layout.
  static std::size_t bytes(const Operand& operand, const Layout& layout) {
    return layout.canonical() ? operand.bytes() : layout.bytes;
  }
  // Both wait. `host` holds operand.bytes() bytes.
  void to_device(const Operand& operand, const Layout& layout, const void* host,
                 void* device) const;
  void to_host(const Operand& operand, const Layout& layout, const void* device, void* host) const;

 private:
  void reorder(const Shape& shape, const Layout& from, const Layout& to, const void* source,
               void* target) const;

  const OpTable& ops_;
  Device& device_;
};

// An op object together with its state and, where it is not shared, its scratch.
struct OwnedOp {
  std::unique_ptr<OpObject> object;
  Buffer state, scratch;
};

// Creates an op with memory of its own.
OwnedOp create_op(const OpProblem& problem, const OpTable& ops, const OpContext& context);

}  // namespace trainbench
