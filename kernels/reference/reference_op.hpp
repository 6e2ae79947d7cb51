#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kernels/core/element_oracle.hpp"
#include "kernels/core/host_device.hpp"
#include "kernels/core/op_table.hpp"

namespace trainbench::reference {

// Computes every element of every output from its definition, one by one. `Op` names the op whose
// problem and operands this is about; a derived class only says what one element is.
template <TrainingOp Op>
class ReferenceOp : public OpObject, public ElementOracle {
 public:
  using Problem = typename Op::Problem;
  ReferenceOp(const OpContext& context, const Problem& problem)
      : device_(as_host(context.device)), problem_(problem) {}

  std::string implementation(Pass) const override { return "definition"; }

  void run(Pass pass, std::span<const Tensor> operands) override {
    const std::vector<Operand> list = Op::operands(problem_, pass);
    // Outputs that are also read keep their old values here while the new ones are made.
    std::vector<Buffer> before;
    std::vector<Tensor> inputs(operands.begin(), operands.end());
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (list[i].role != Role::kInOut) continue;
      before.emplace_back(device_, list[i].bytes());
      device_.upload(before.back().data(), operands[i].data, list[i].bytes());
      inputs[i].data = before.back().data();
    }
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (list[i].is_written()) compute(pass, inputs, i, operands[i]);
    }
  }

 protected:
  const Problem& problem() const { return problem_; }

 private:
  void compute(Pass pass, std::span<const Tensor> inputs, std::size_t output,
               const Tensor& target) {
    const auto body = [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        const double value = element(pass, inputs, output, i);
        switch (target.type) {
          case DType::kFloat32:
            target.f32()[i] = static_cast<float>(value);
            break;
          case DType::kInt32:
            target.as<std::int32_t>()[i] = static_cast<std::int32_t>(value);
            break;
          case DType::kUint32:
            target.as<std::uint32_t>()[i] = static_cast<std::uint32_t>(value);
            break;
          case DType::kUint8:
            target.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(value);
            break;
        }
      }
    };
    constexpr std::int64_t kGrain = 64;
    parallel_for(device_.team(), target.shape.elements(), kGrain, body);
  }

  HostDevice& device_;
  Problem problem_;
};

// The factory of a reference op for OpTable::add.
template <class Reference>
std::unique_ptr<OpObject> create(const OpContext& context,
                                 const typename Reference::Problem& problem) {
  return std::make_unique<Reference>(context, problem);
}

}  // namespace trainbench::reference
