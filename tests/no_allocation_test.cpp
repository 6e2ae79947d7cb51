// A steady step allocates nothing: every allocation of this program, by any thread, is counted.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <string_view>

#include "program/layerwise_program.hpp"
#include "tests/test_support.hpp"

// Sanitizers bring an allocator of their own, which must not be replaced.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__GLIBC__)

namespace {

std::atomic<std::size_t> allocations{0};

// Whether code of this program, or the standard library on its behalf, is at an address. What a
// library allocates inside its own calls, as oneDNN does in each, is its own affair.
bool is_ours(const void* address) {
  Dl_info object;
  if (dladdr(address, &object) == 0 || object.dli_fname == nullptr) return true;
  const std::string_view file = object.dli_fname;
  return file.find(".so") == std::string_view::npos || file.find("libstdc++") != file.npos;
}

}  // namespace

// Our code allocates by operator new, and device memory by aligned_alloc. Plain malloc is left to
// libraries: OpenBLAS makes a further buffer when two of its calls first overlap in time.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (is_ours(__builtin_return_address(0))) ++allocations;
  if (void* data = std::malloc(bytes == 0 ? 1 : bytes)) return data;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* data) noexcept { std::free(data); }
[[gnu::noinline]] void operator delete(void* data, std::size_t) noexcept { std::free(data); }

extern "C" {
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  ++allocations;
  return __libc_memalign(alignment, bytes);
}
}

namespace trainbench {
namespace {

std::size_t allocations_of_an_epoch(const Backend& backend, const ModelSpec& spec) {
  constexpr std::int64_t kBatch = 8, kSamples = 37, kSteps = 5;  // The last batch is shorter.
  const Dataset data = synthetic(spec.sample, spec.classes(), kSamples, 1);
  const auto order = test::make_order(kSamples);
  const auto device = backend.open_device({.threads = 2});
  const auto program = make_program(backend, *device, spec, {.batch = kBatch});
  program->import_state(initial_state(spec, 1));
  program->load(data.view());
  const auto epoch = [&] {
    program->train(order, 0, kSteps);
    return program->wait().size();
  };
  EXPECT_EQ(epoch(), 5u);
  const std::size_t before = allocations;
  epoch();
  epoch();
  return allocations - before;
}

class NoAllocation : public testing::TestWithParam<const Backend*> {};

TEST_P(NoAllocation, InASteadyEpoch) {
  for (const ModelSpec& spec : {test::tiny_cnn(), cifar10_cnn(8), mnist_mlp(2, 32)}) {
    EXPECT_EQ(allocations_of_an_epoch(*GetParam(), spec), 0u) << spec.name;
  }
}

std::vector<const Backend*> on_host() {
  auto backends = test::training_backends(test::tiny_cnn(), true);
  std::erase_if(backends, [](const Backend* backend) { return !backend->on_host(); });
  return backends;
}

INSTANTIATE_TEST_SUITE_P(Backends, NoAllocation, testing::ValuesIn(on_host()),
                         [](const auto& tested) { return std::string(tested.param->name()); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(NoAllocation);

TEST(CountingAllocator, CountsEveryKind) {
  const std::size_t before = allocations;
  // Through a volatile pointer, or the compiler leaves the pairs out.
  int* volatile number = new int(3);
  delete number;
  void* volatile block = std::aligned_alloc(64, 64);
  std::free(block);
  EXPECT_EQ(allocations - before, 2u);
}

}  // namespace
}  // namespace trainbench

#else

TEST(NoAllocation, CannotBeCountedHere) {
  GTEST_SKIP() << "the allocator cannot be replaced in this build";
}

#endif
