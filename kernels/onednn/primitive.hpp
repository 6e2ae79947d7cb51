#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/onednn/device.hpp"
#include "kernels/onednn/layouts.hpp"

namespace trainbench::onednn {

// One primitive with its memory objects, made once; running it creates nothing.
class Primitive {
 public:
  Primitive() = default;
  // `arguments`: the DNNL_ARG_* of what run() will be handed, in that order.
  Primitive(OnednnDevice& device, const dnnl::primitive_desc_base& descriptor,
            std::vector<int> arguments);

  explicit operator bool() const { return device_ != nullptr; }
  // What the library runs: "jit:avx512_core".
  const std::string& implementation() const { return implementation_; }
  std::size_t scratch_bytes() const { return scratch_bytes_; }

  // `data`: one pointer per argument. Throws std::runtime_error when the library fails.
  void run(std::span<void* const> data, void* scratch) const;

 private:
  OnednnDevice* device_ = nullptr;
  dnnl::primitive primitive_;
  std::string implementation_;
  std::size_t scratch_bytes_ = 0;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;  // The scratchpad is the last.
};

// A copy from one descriptor to another of the same dimensions.
Primitive make_reorder(OnednnDevice& device, const Desc& from, const Desc& to);

// The attributes of every primitive here: scratchpads are the harness's.
dnnl::primitive_attr attributes();

// How good an implementation is: 0 generated for the ISA, 1 by way of a general matrix product,
// 2 plain loops ("ref").
int rank(std::string_view implementation);

// Unsupported, OutOfMemory or std::runtime_error naming `what` (op, shape, type) and the ISA.
[[noreturn]] void throw_as_ours(const dnnl::error& error, const std::string& what);

// Calls f(), in which the library creates something on the device; its errors become ours.
template <class F>
decltype(auto) creating(OnednnDevice& device, const std::string& what, F&& f) {
  try {
    return device.with_threads(std::forward<F>(f));
  } catch (const dnnl::error& error) {
    throw_as_ours(error, what);
  }
}

}  // namespace trainbench::onednn
