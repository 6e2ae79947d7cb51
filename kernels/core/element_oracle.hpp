#pragma once

#include <cstdint>
#include <span>

#include "kernels/core/op.hpp"

namespace trainbench {

// Knows single output elements of an op from its definition, in double. The reference backend's ops
// are oracles, so a sample of a large result can be checked without computing all of it.
class ElementOracle {
 public:
  virtual ~ElementOracle() = default;
  // Element `index`, in canonical order, of the operand at position `output`. Operands are as for
  // OpObject::run, in host memory and canonical; in-out operands hold their values before the pass.
  virtual double element(Pass pass, std::span<const Tensor> operands, std::size_t output,
                         std::int64_t index) const = 0;
};

}  // namespace trainbench
