#include "kernels/core/host_backend.hpp"
#include "kernels/openblas/sgemm.hpp"
#include "native/own_ops.hpp"
#include "openblas/own_ops.hpp"

namespace trainbench::openblas {
namespace {

// Convolutions and dense layers by the library's sgemm; what has no BLAS routine is borrowed.
class OpenBlasBackend final : public HostBackend {
 public:
  std::string_view name() const override { return "openblas"; }

  OpTable ops() const override {
    OpTable ops = own_ops();
    ops.borrow("native", native::own_ops(),
               {"relu", "dropout", "softmax", "softmax_cross_entropy", "adam", "gather", "reorder",
                "max_pool2d", "avg_pool2d"});
    return ops;
  }

  Probe probe() const override {
    const Library found = library();
    return {
        .available = true,
        .reason = "",
        .version = "OpenBLAS " + found.version + " (" + found.core + ", " + found.threading + ")",
        .context = {{"openblas_version", found.version},
                    {"openblas_core", found.core},
                    {"openblas_threading", found.threading},
                    {"openblas_config", found.config},
                    {"openblas_max_callers", std::to_string(found.max_callers)}}};
  }
};

}  // namespace

std::unique_ptr<Backend> make_backend() { return std::make_unique<OpenBlasBackend>(); }

}  // namespace trainbench::openblas
