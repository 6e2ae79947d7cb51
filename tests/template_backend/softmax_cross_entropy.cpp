#include "kernels/ops/softmax_cross_entropy.hpp"

#include "kernels/core/op_table.hpp"
#include "tests/template_backend/kernels.hpp"
#include "tests/template_backend/padded.hpp"

namespace trainbench::template_backend {
namespace {

class TemplateSoftmaxCrossEntropy final : public SoftmaxCrossEntropy {
 public:
  TemplateSoftmaxCrossEntropy(const OpContext& context, const Problem& p)
      : device_(as_template(context.device)), problem_(p) {}

  std::string implementation(Pass) const override { return "loop"; }

  void forward(Tensor x, Tensor labels, Tensor y, Tensor loss, Tensor correct,
               Tensor predicted) override {
    device_.enqueue([&device = device_, p = problem_, x, labels, y, loss, correct, predicted] {
      const LossResult result = softmax_forward(
          p.batch, p.classes, device.floats(x.data, p.batch * p.classes),
          integers(device, labels, p.batch), device.floats(y.data, p.batch * p.classes),
          integers(device, predicted, p.batch));
      *device.floats(loss.data, 1) = static_cast<float>(result.loss);
      *integers(device, correct, 1) = result.correct;
    });
  }
  void backward_data(Tensor y, Tensor labels, Tensor dx) override {
    device_.enqueue([&device = device_, p = problem_, y, labels, dx] {
      const std::int64_t count = p.batch * p.classes;
      softmax_backward(p.batch, p.classes, device.floats(y.data, count),
                       integers(device, labels, p.batch), device.floats(dx.data, count));
    });
  }

 private:
  static std::int32_t* integers(const TemplateDevice& device, const Tensor& tensor,
                                std::int64_t count) {
    return static_cast<std::int32_t*>(
        device.memory(tensor.data, static_cast<std::size_t>(count) * sizeof(std::int32_t)));
  }

  TemplateDevice& device_;
  Problem problem_;
};

}  // namespace

void add_softmax_cross_entropy(OpTable& ops) {
  ops.add<SoftmaxCrossEntropy, TemplateSoftmaxCrossEntropy>({Precision::kFp32});
}

}  // namespace trainbench::template_backend
