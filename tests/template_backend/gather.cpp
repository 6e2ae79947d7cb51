#include "kernels/ops/gather.hpp"

#include "kernels/core/op_table.hpp"
#include "tests/template_backend/kernels.hpp"
#include "tests/template_backend/padded.hpp"

namespace trainbench::template_backend {
namespace {

class TemplateGather final : public Gather {
 public:
  TemplateGather(const OpContext& context, const Problem& p)
      : device_(as_template(context.device)), problem_(p) {}

  std::string implementation(Pass) const override { return "loop"; }

  void gather(Tensor images, Tensor classes, Tensor order, Tensor cursor, Tensor x,
              Tensor labels) override {
    device_.enqueue([&device = device_, p = problem_, images, classes, order, cursor, x, labels] {
      const auto* pixels = values<std::uint8_t>(device, images, p.count * p.features);
      const auto* all = values<std::uint8_t>(device, classes, p.count);
      const auto* permutation = values<std::uint32_t>(device, order, p.count);
      auto* position = values<std::uint32_t>(device, cursor, 1);
      float* target = values<float>(device, x, p.batch * p.features);
      auto* wanted = values<std::int32_t>(device, labels, p.batch);
      for (std::int64_t b = 0; b < p.batch; ++b) {
        const std::int64_t sample = permutation[*position + b];
        wanted[b] = all[sample];
        for (std::int64_t i = 0; i < p.features; ++i) {
          target[b * p.features + i] =
              static_cast<float>(pixels[sample * p.features + i]) * (1.0f / 255);
        }
      }
      const std::int64_t next = *position + p.batch;
      *position = next == p.count ? 0 : static_cast<std::uint32_t>(next);
    });
  }

 private:
  template <class T>
  static T* values(const TemplateDevice& device, const Tensor& tensor, std::int64_t count) {
    return static_cast<T*>(device.memory(tensor.data, static_cast<std::size_t>(count) * sizeof(T)));
  }

  TemplateDevice& device_;
  Problem problem_;
};

}  // namespace

void add_gather(OpTable& ops) { ops.add<Gather, TemplateGather>({Precision::kFp32}); }

}  // namespace trainbench::template_backend
