#include "kernels/ops/adam.hpp"

#include "kernels/core/op_table.hpp"
#include "tests/template_backend/kernels.hpp"
#include "tests/template_backend/padded.hpp"

namespace trainbench::template_backend {
namespace {

class TemplateAdam final : public Adam {
 public:
  TemplateAdam(const OpContext& context, const Problem& p)
      : device_(as_template(context.device)), problem_(p) {}

  std::string implementation(Pass) const override { return "loop"; }

  void update(Tensor g, Tensor w, Tensor m, Tensor v, Tensor step) override {
    device_.enqueue([&device = device_, p = problem_, g, w, m, v, step] {
      auto& updates = *static_cast<std::uint32_t*>(device.memory(step.data, sizeof(std::uint32_t)));
      adam_update(p.hyper, ++updates, p.elements, device.floats(g.data, p.elements),
                  device.floats(w.data, p.elements), device.floats(m.data, p.elements),
                  device.floats(v.data, p.elements));
    });
  }

 private:
  TemplateDevice& device_;
  Problem problem_;
};

}  // namespace

void add_adam(OpTable& ops) { ops.add<Adam, TemplateAdam>({Precision::kFp32}); }

}  // namespace trainbench::template_backend
