#pragma once

#include "kernels/onednn/primitive.hpp"
#include "kernels/ops/pooling.hpp"

namespace trainbench::onednn {

// What the pooling ops share: their primitives, in the form in which x comes, and the workspace
// that forward leaves for the way back.
class PoolingPrimitives {
 public:
  PoolingPrimitives(const OpContext& context, const Pooling::Problem& p, dnnl::algorithm algorithm,
                    const std::string& what);

  void forward(void* x, void* y, void* workspace, void* scratch) const;
  void backward(void* dy, void* dx, void* workspace, void* scratch) const;

  const std::string& implementation(Pass pass) const {
    return (pass == Pass::kForward ? forward_ : backward_).implementation();
  }
  Layout layout(std::string_view operand) const {
    return operand == "x" ? make_layout(x_, canonical_x_) : make_layout(y_, canonical_y_);
  }
  std::size_t workspace_bytes() const { return workspace_bytes_; }
  std::size_t scratch_bytes() const;

 private:
  OnednnDevice& device_;
  Desc canonical_x_, canonical_y_, x_, y_;
  Primitive forward_, backward_;
  std::size_t workspace_bytes_ = 0;
};

// A pooling op by them, apart from the operands of its backward pass.
template <class Op>
class OnednnPooling : public Op {
 public:
  OnednnPooling(const OpContext& context, const typename Op::Problem& p, dnnl::algorithm algorithm)
      : primitives_(context, p, algorithm, std::string(Op::kName) + " " + Op::describe(p)) {}

  void forward(Tensor x, Tensor y) final {
    primitives_.forward(x.data, y.data, this->state(), this->scratch());
  }
  std::string implementation(Pass pass) const final { return primitives_.implementation(pass); }
  Layout layout(std::string_view operand) const final { return primitives_.layout(operand); }
  std::size_t state_bytes() const final { return primitives_.workspace_bytes(); }
  std::size_t scratch_bytes() const final { return primitives_.scratch_bytes(); }

 protected:
  void backward(Tensor dy, Tensor dx) {
    primitives_.backward(dy.data, dx.data, this->state(), this->scratch());
  }

 private:
  PoolingPrimitives primitives_;
};

}  // namespace trainbench::onednn
