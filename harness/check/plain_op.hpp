#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/core/op_table.hpp"

namespace trainbench {

// An op whose activations come and go in canonical form, as a user's own data would: where the op
// wants another form, the backend's reorders run before and after it, within each pass. Weights
// stay in the op's form, in which a user's program keeps them.
class PlainOp final : public OpObject {
 public:
  PlainOp(const OpTable& ops, const OpContext& context, const OpProblem& problem);

  const OpObject& inner() const { return *op_; }
  bool reorders(Pass pass) const { return !plans_.at(pass).converted.empty(); }

  void run(Pass pass, std::span<const Tensor> operands) override;
  // That of the op, and what is reordered: "jit:avx2+reorder(x,y)".
  std::string implementation(Pass pass) const override;
  double executed_flops(Pass pass) const override { return op_->executed_flops(pass); }
  double error_factor(Pass pass) const override { return op_->error_factor(pass); }
  void parameters_changed() override { op_->parameters_changed(); }
  Layout layout(std::string_view operand) const override;
  std::size_t state_bytes() const override { return op_->state_bytes(); }
  std::size_t scratch_bytes() const override { return scratch_bytes_; }

 private:
  // An operand of one pass that is handed over in another form.
  struct Converted {
    std::string name;
    std::size_t position = 0;  // Among the operands of the pass.
    bool written = false;
    std::size_t offset = 0;  // Of the op's form in the scratch.
    std::unique_ptr<OpObject> reorder;
  };
  struct Plan {
    std::vector<Converted> converted;
    std::vector<Tensor> operands;  // As the op sees them.
  };

  void reorder(const Converted& operand, const Tensor& canonical, void* own) const;

  std::unique_ptr<OpObject> op_;
  std::map<Pass, Plan> plans_;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace trainbench
