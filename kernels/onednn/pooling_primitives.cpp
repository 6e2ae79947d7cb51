#include "kernels/onednn/pooling_primitives.hpp"

#include <algorithm>
#include <array>

namespace trainbench::onednn {

PoolingPrimitives::PoolingPrimitives(const OpContext& context, const Pooling::Problem& p,
                                     dnnl::algorithm algorithm, const std::string& what)
    : device_(as_onednn(context.device)),
      canonical_x_(canonical_images(p.batch, p.height, p.width, p.channels)),
      canonical_y_(canonical_images(p.batch, p.out_height(), p.out_width(), p.channels)) {
  const auto make = [&] {
    const auto type = data_type(context.precision);
    const Form* incoming = form_of(context.hint("x"));
    const Desc x = incoming == nullptr || incoming->desc.get_data_type() != type
                       ? with_type(canonical_x_, type)
                       : incoming->desc;
    const Window& w = p.window;
    const Dims window{w.size, w.size}, strides{w.stride, w.stride}, dilation{0, 0};
    const Dims before{w.pad_before(p.height), w.pad_before(p.width)};
    const Dims after{w.pad_total(p.height) - before[0], w.pad_total(p.width) - before[1]};
    const dnnl::pooling_forward::primitive_desc forward(
        device_.engine(),
        context.inference ? dnnl::prop_kind::forward_inference : dnnl::prop_kind::forward_training,
        algorithm, x, with_any_format(canonical_y_, type), strides, window, dilation, before, after,
        attributes());
    x_ = forward.src_desc();
    y_ = forward.dst_desc();
    workspace_bytes_ = forward.workspace_desc().get_size();
    std::vector<int> arguments = {DNNL_ARG_SRC, DNNL_ARG_DST};
    if (workspace_bytes_ != 0) arguments.push_back(DNNL_ARG_WORKSPACE);
    forward_ = {device_, forward, arguments};
    if (context.inference) return;
    const dnnl::pooling_backward::primitive_desc backward(device_.engine(), algorithm, x_, y_,
                                                          strides, window, dilation, before, after,
                                                          forward, attributes());
    arguments = {DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_SRC};
    if (workspace_bytes_ != 0) arguments.push_back(DNNL_ARG_WORKSPACE);
    backward_ = {device_, backward, arguments};
  };
  creating(device_, what + " in " + std::string(to_string(context.precision)), make);
}

void PoolingPrimitives::forward(void* x, void* y, void* workspace, void* scratch) const {
  const std::array data{x, y, workspace};
  forward_.run(std::span(data).first(workspace_bytes_ == 0 ? 2 : 3), scratch);
}

void PoolingPrimitives::backward(void* dy, void* dx, void* workspace, void* scratch) const {
  const std::array data{dy, dx, workspace};
  backward_.run(std::span(data).first(workspace_bytes_ == 0 ? 2 : 3), scratch);
}

std::size_t PoolingPrimitives::scratch_bytes() const {
  return std::max(forward_.scratch_bytes(), backward_.scratch_bytes());
}

}  // namespace trainbench::onednn
