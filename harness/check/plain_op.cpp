#include "harness/check/plain_op.hpp"

#include <algorithm>
#include <array>

#include "kernels/ops/reorder.hpp"

namespace trainbench {
namespace {

bool is_activation(std::string_view operand) {
  return operand == "x" || operand == "y" || operand == "dx" || operand == "dy";
}

}  // namespace

PlainOp::PlainOp(const OpTable& ops, const OpContext& context, const OpProblem& problem)
    : op_(problem.create(ops, context)) {
  const std::size_t reserved = aligned(op_->scratch_bytes());
  std::size_t reorder_bytes = 0, most = 0;
  for (const Pass pass : problem.passes()) {
    Plan plan;
    std::size_t end = reserved;
    for (const Operand& operand : problem.operands(pass)) {
      plan.operands.push_back({nullptr, operand.shape, operand.type});
      const Layout own = layout_of(*op_, operand.name);
      const bool read = !operand.is_written() && op_->reads(pass, operand.name);
      if (!is_activation(operand.name) || own.canonical()) continue;
      if (!read && !operand.is_written()) continue;
      const Reorder::Problem change{.shape = operand.shape,
                                    .from = operand.is_written() ? own : Layout{},
                                    .to = operand.is_written() ? Layout{} : own};
      Converted converted{.name = std::string(operand.name),
                          .position = plan.operands.size() - 1,
                          .written = operand.is_written(),
                          .offset = end,
                          .reorder = make_problem<Reorder>(change)->create(ops, context)};
      end += aligned(own.bytes);
      reorder_bytes = std::max(reorder_bytes, converted.reorder->scratch_bytes());
      plan.converted.push_back(std::move(converted));
    }
    most = std::max(most, end);
    plans_.emplace(pass, std::move(plan));
  }
  scratch_bytes_ = most + aligned(reorder_bytes);
}

void PlainOp::reorder(const Converted& operand, const Tensor& canonical, void* own) const {
  const Tensor converted{own, canonical.shape, canonical.type};
  const std::size_t behind = scratch_bytes_ - aligned(operand.reorder->scratch_bytes());
  operand.reorder->attach(nullptr, static_cast<std::byte*>(scratch()) + behind);
  operand.reorder->run(Pass::kForward, operand.written ? std::array{converted, canonical}
                                                       : std::array{canonical, converted});
}

void PlainOp::run(Pass pass, std::span<const Tensor> operands) {
  Plan& plan = plans_.at(pass);
  std::ranges::copy(operands, plan.operands.begin());
  op_->attach(state(), scratch());
  for (const Converted& operand : plan.converted) {
    void* own = static_cast<std::byte*>(scratch()) + operand.offset;
    if (!operand.written) reorder(operand, operands[operand.position], own);
    plan.operands[operand.position].data = own;
  }
  op_->run(pass, plan.operands);
  for (const Converted& operand : plan.converted) {
    if (!operand.written) continue;
    reorder(operand, operands[operand.position], plan.operands[operand.position].data);
  }
}

std::string PlainOp::implementation(Pass pass) const {
  std::string reordered;
  for (const Converted& operand : plans_.at(pass).converted) {
    reordered += (reordered.empty() ? "" : ",") + operand.name;
  }
  return op_->implementation(pass) + (reordered.empty() ? "" : "+reorder(" + reordered + ")");
}

Layout PlainOp::layout(std::string_view operand) const {
  return is_activation(operand) ? Layout{} : op_->layout(operand);
}

}  // namespace trainbench
