#include "kernels/onednn/primitive.hpp"

#include <stdexcept>

#include "kernels/onednn/library.hpp"

namespace trainbench::onednn {
namespace {

std::string status_name(dnnl_status_t status) {
  switch (status) {
    case dnnl_out_of_memory:
      return "out of memory";
    case dnnl_invalid_arguments:
      return "invalid arguments";
    case dnnl_unimplemented:
      return "unimplemented";
    case dnnl_runtime_error:
      return "run-time error";
    default:
      return "status " + std::to_string(static_cast<int>(status));
  }
}

}  // namespace

Primitive::Primitive(OnednnDevice& device, const dnnl::primitive_desc_base& descriptor,
                     std::vector<int> arguments)
    : device_(&device),
      primitive_(descriptor.get()),
      implementation_(descriptor.impl_info_str()),
      scratch_bytes_(descriptor.query_md(dnnl::query::scratchpad_md).get_size()) {
  arguments.push_back(DNNL_ARG_SCRATCHPAD);
  memories_.reserve(arguments.size());
  for (const int argument : arguments) {
    const Desc desc = descriptor.query_md(dnnl::query::exec_arg_md, argument);
    memories_.push_back(dnnl::memory(desc, device.engine(), DNNL_MEMORY_NONE));
    arguments_.push_back({argument, memories_.back().get()});
  }
}

void Primitive::run(std::span<void* const> data, void* scratch) const {
  if (data.size() + 1 != memories_.size()) throw std::logic_error("a primitive misses arguments");
  std::size_t next = 0;
  for (void* pointer : data) dnnl_memory_set_data_handle(memories_[next++].get(), pointer);
  dnnl_memory_set_data_handle(memories_[next].get(), scratch);
  const dnnl_status_t status = device_->with_threads([&] {
    return dnnl_primitive_execute(primitive_.get(), device_->stream(),
                                  static_cast<int>(arguments_.size()), arguments_.data());
  });
  if (status != dnnl_success) {
    throw_as_ours(dnnl::error(status, "while running"), implementation_);
  }
}

Primitive make_reorder(OnednnDevice& device, const Desc& from, const Desc& to) {
  const dnnl::reorder::primitive_desc descriptor(device.engine(), from, device.engine(), to,
                                                 attributes());
  return {device, descriptor, {DNNL_ARG_SRC, DNNL_ARG_DST}};
}

dnnl::primitive_attr attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

int rank(std::string_view implementation) {
  if (implementation.find("ref") != std::string_view::npos) return 2;
  const bool gemm = implementation.starts_with("gemm") ||
                    implementation.find(":gemm") != std::string_view::npos;  // Not "brgemm".
  return gemm ? 1 : 0;
}

void throw_as_ours(const dnnl::error& error, const std::string& what) {
  const std::string message = "oneDNN " + library().version + " cannot do " + what + " on " +
                              library().isa + ": " + status_name(error.status) + " (" +
                              error.what() + ")";
  if (error.status == dnnl_unimplemented) throw Unsupported(message);
  if (error.status == dnnl_out_of_memory) throw OutOfMemory(message + "; try a smaller batch");
  throw std::runtime_error(message);
}

}  // namespace trainbench::onednn
