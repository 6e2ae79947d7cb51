#include "program/layout_converter.hpp"

#include <array>

#include "kernels/ops/reorder.hpp"

namespace trainbench {

OwnedOp create_op(const OpProblem& problem, const OpTable& ops, const OpContext& context) {
  OwnedOp op{.object = problem.create(ops, context), .state = {}, .scratch = {}};
  if (op.object->state_bytes() != 0) op.state = Buffer(context.device, op.object->state_bytes());
  if (op.object->scratch_bytes() != 0) {
    op.scratch = Buffer(context.device, op.object->scratch_bytes());
  }
  op.object->attach(op.state.data(), op.scratch.data());
  return op;
}

void LayoutConverter::reorder(const Shape& shape, const Layout& from, const Layout& to,
                              const void* source, void* target) const {
  const auto problem = make_problem<Reorder>({.shape = shape, .from = from, .to = to});
  const OwnedOp op = create_op(*problem, ops_, {.device = device_});
  const std::array<Tensor, 2> operands = {Tensor{const_cast<void*>(source), shape},
                                          Tensor{target, shape}};
  op.object->run(Pass::kForward, operands);
  device_.synchronize();
}

void LayoutConverter::to_device(const Operand& operand, const Layout& layout, const void* host,
                                void* device) const {
  if (layout.canonical()) {
    device_.upload(device, host, operand.bytes());
    return;
  }
  const Buffer canonical(device_, operand.bytes());
  device_.upload(canonical.data(), host, operand.bytes());
  reorder(operand.shape, {}, layout, canonical.data(), device);
}

void LayoutConverter::to_host(const Operand& operand, const Layout& layout, const void* device,
                              void* host) const {
  if (layout.canonical()) {
    device_.download(host, device, operand.bytes());
    return;
  }
  const Buffer canonical(device_, operand.bytes());
  reorder(operand.shape, layout, {}, device, canonical.data());
  device_.download(host, canonical.data(), operand.bytes());
}

}  // namespace trainbench
