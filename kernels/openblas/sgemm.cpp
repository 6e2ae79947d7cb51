#include "kernels/openblas/sgemm.hpp"

#include <cblas.h>
#include <sys/mman.h>

#include <charconv>
#include <limits>
#include <sstream>
#include <stdexcept>

#include "kernels/core/host_device.hpp"
#include "kernels/core/openmp.hpp"

namespace trainbench::openblas {
namespace {

enum Threading { kSerial = 0, kPthread = 1, kOpenMp = 2 };  // Of openblas_get_parallel().

// An OpenBLAS with OpenMP asks OpenMP how many threads a call may use, a setting of each calling
// thread. Functions are null for other OpenBLAS.
const OpenMpRuntime& openmp() {
  static const OpenMpRuntime none;
  if (openblas_get_parallel() != kOpenMp) return none;
  const OpenMpRuntime& runtime = openmp_runtime();
  if (runtime.get_max_threads == nullptr || runtime.set_num_threads == nullptr) {
    throw std::runtime_error(
        "OpenBLAS was built with OpenMP, but omp_set_num_threads is not to be found; link an "
        "OpenBLAS with pthreads (Debian: libopenblas-pthread-dev)");
  }
  return runtime;
}

// "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH NO_AFFINITY Haswell MAX_THREADS=64": the word after
// `key`, up to the next space.
std::string word_after(const std::string& config, const std::string& key) {
  const std::size_t found = config.find(key);
  if (found == std::string::npos) return "";
  const std::size_t begin = found + key.size();
  return config.substr(begin, config.find(' ', begin) - begin);
}

// With threads it has two work areas per thread of MAX_THREADS, and its own sleeping threads hold
// one each. Without, two concurrent calls can get the same work area and return wrong sums: seen
// with Debian's 0.3.21 serial, although that is built with USE_LOCKING=1.
int max_callers(const std::string& config) {
  if (openblas_get_parallel() == kSerial) return 1;
  const std::string word = word_after(config, "MAX_THREADS=");
  int threads = 0;
  std::from_chars(word.data(), word.data() + word.size(), threads);
  return std::max(threads, 1);
}

blasint narrow(std::int64_t value) {
  if (value > std::numeric_limits<blasint>::max()) {
    throw std::length_error("OpenBLAS was built for matrices of at most " +
                            std::to_string(std::numeric_limits<blasint>::max()) +
                            " rows or columns, not " + std::to_string(value));
  }
  return static_cast<blasint>(value);
}

CBLAS_TRANSPOSE operation(const Factor& factor) {
  return factor.transposed ? CblasTrans : CblasNoTrans;
}

// OpenBLAS maps a buffer per concurrent caller when it is first called, and where that fails, tries
// for ever. So a mapping of the same size is tried first.
void require_buffers(int callers) {
  constexpr std::size_t kBufferBytes = (std::size_t{128} << 20) + (std::size_t{1} << 20);
  const std::size_t bytes = static_cast<std::size_t>(callers) * kBufferBytes;
  void* trial = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (trial == MAP_FAILED) {
    throw OutOfMemory("OpenBLAS needs " + std::to_string(bytes) + " bytes of address space for " +
                      std::to_string(callers) +
                      " threads, more than the limit leaves (ulimit -v); try fewer --threads");
  }
  munmap(trial, bytes);
}

}  // namespace

Library library() {
  const std::string config = openblas_get_config();
  const int parallel = openblas_get_parallel();
  return {.version = word_after(config, "OpenBLAS "),
          .core = openblas_get_corename(),
          .threading = parallel == kSerial    ? "serial"
                       : parallel == kPthread ? "pthread"
                                              : "openmp",
          .config = config,
          .max_callers = max_callers(config)};
}

void sgemm(std::int64_t m, std::int64_t n, std::int64_t k, Factor a, Factor b, bool accumulate,
           float* c, std::int64_t c_stride) {
  cblas_sgemm(CblasRowMajor, operation(a), operation(b), narrow(m), narrow(n), narrow(k), 1.0f,
              a.data, narrow(a.stride), b.data, narrow(b.stride), accumulate ? 1.0f : 0.0f, c,
              narrow(c_stride));
}

void transpose(std::int64_t rows, std::int64_t columns, const float* in, float* out) {
  cblas_somatcopy(CblasRowMajor, CblasTrans, narrow(rows), narrow(columns), 1.0f, in,
                  narrow(columns), out, narrow(rows));
}

SingleThreaded::SingleThreaded() {
  if (openmp().set_num_threads == nullptr) return;
  saved_ = openmp().get_max_threads();
  openmp().set_num_threads(1);
}

SingleThreaded::~SingleThreaded() {
  if (saved_ != 0) openmp().set_num_threads(saved_);
}

SgemmTeam::SgemmTeam(Device& device)
    : team_(as_host(device).team()), size_(std::min(team_.size(), library().max_callers)) {
  if (openblas_get_parallel() == kPthread) openblas_set_num_threads(1);
  openmp();  // Fails now rather than in a worker.
  require_buffers(size_);
}

std::string SgemmTeam::describe(const std::string& implementation) const {
  if (size_ == team_.size()) return implementation;
  std::ostringstream text;
  text << implementation << " on " << size_ << " of " << team_.size() << " threads";
  return text.str();
}

}  // namespace trainbench::openblas
