#include "kernels/ops/reorder.hpp"

#include <array>
#include <memory>

#include "kernels/core/op_table.hpp"
#include "kernels/onednn/primitive.hpp"

namespace trainbench::onednn {
namespace {

// The descriptor of one side. Planar operands have the dimensions of the canonical NHWC ones, as
// has everything of rank 4 that is no layer's weights; those come with a form.
Desc describe_side(const Layout& layout, const Layout& other, const Shape& shape) {
  const bool planar = layout == Reorder::planar() || other == Reorder::planar();
  const Form* known = form_of(layout) != nullptr ? form_of(layout) : form_of(other);
  Desc canonical = known != nullptr ? known->canonical : canonical_shape(shape);
  if (known == nullptr && planar) {
    canonical = canonical_images(shape[0], shape[1], shape[2], shape[3]);
  }
  if (layout != Reorder::planar()) return describe(layout, canonical);
  return with_format(canonical, dnnl::memory::data_type::f32, dnnl::memory::format_tag::nchw);
}

class OnednnReorder final : public Reorder {
 public:
  OnednnReorder(const OpContext& context, const Problem& p)
      : Reorder(p), device_(as_onednn(context.device)) {
    creating(device_, "reorder " + describe(p), [&] {
      reorder_ = make_reorder(device_, describe_side(p.from, p.to, p.shape),
                              describe_side(p.to, p.from, p.shape));
    });
  }

  void reorder(Tensor x, Tensor y) override { reorder_.run(std::array{x.data, y.data}, scratch()); }
  std::string implementation(Pass) const override { return reorder_.implementation(); }
  std::size_t scratch_bytes() const override { return reorder_.scratch_bytes(); }

 private:
  OnednnDevice& device_;
  Primitive reorder_;
};

}  // namespace

void add_reorder(OpTable& ops) {
  // Between forms that a problem names, whatever the precision around it.
  ops.add<Reorder, OnednnReorder>({Precision::kFp32});
}

}  // namespace trainbench::onednn
