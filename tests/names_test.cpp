#include <gtest/gtest.h>

#include <sstream>

#include "harness/rows/row.hpp"

namespace trainbench {
namespace {

class GoodName : public testing::TestWithParam<const char*> {};
TEST_P(GoodName, IsAccepted) { EXPECT_NO_THROW(check_name(GetParam())); }
INSTANTIATE_TEST_SUITE_P(
    Names, GoodName,
    testing::Values(
        "op/conv2d/backward_weights/onednn/fp32/batch:100/size:32/in:32/out:32/kernel:3",
        "layer/cifar10_cnn.conv4/forward/native/fp32/batch:100/width:32",
        "step/mnist_mlp/train/openblas/fp32/batch:32/depth:1/width:128",
        "epoch/cifar10_cnn/train/cudnn/tf32/batch:100/width:32",
        "epoch/cifar10_cnn/train/cudnn/tf32/batch:100/width:32/input:streamed",
        "epoch/cifar10_cnn/train/openblas/fp32/batch:100/width:32/steps:50",
        "copy/h2d/pinned/cuda/u8/bytes:1228800", "launch/null/graph/cuda/none/nodes:100",
        "machine/fma/peak/avx512/fp32/threads:2",
        "knee/mnist_mlp/train/native/fp32/batch:32/threads:4",
        "ledger/cifar10_cnn/train/native/fp32/batch:100/width:32"));

class BadName : public testing::TestWithParam<const char*> {};
TEST_P(BadName, IsRefused) { EXPECT_THROW(check_name(GetParam()), std::logic_error); }
INSTANTIATE_TEST_SUITE_P(
    Names, BadName,
    testing::Values("", "op/conv2d/forward/onednn", "gemm/conv2d/forward/onednn/fp32",
                    "op/conv2d//onednn/fp32", "op/conv2d/forward/onednn/fp32/",
                    "op/Conv2d/forward/onednn/fp32", "op/conv2d/forward/one.dnn/fp32",
                    "op/conv2d/forward/onednn/fp32/batch", "op/conv2d/forward/onednn/fp32/batch:",
                    "op/conv2d/forward/onednn/fp32/batch:x", "op/conv2d/forward/onednn/fp32/:1",
                    "op/conv2d/forward/onednn/fp32/batch:1/batch:2",
                    "op/conv2d/forward/onednn/fp32/threads:2",
                    "op/conv2d/forward/onednn/fp32/algo:winograd/batch:1",
                    "op/conv2d/forward/onednn/fp32/cache:warm",
                    "epoch/cnn/train/cudnn/fp32/launch:fast",
                    "epoch/cnn/train/cudnn/fp32/steps:few", "op/conv 2d/forward/onednn/fp32"));

TEST(Names, AreUnique) {
  const Row row{.name = "op/relu/forward/native/fp32/elements:8"};
  EXPECT_NO_THROW(check_names({row}));
  EXPECT_THROW(check_names({row, row}), std::logic_error);
}

TEST(Names, AreJoinedFromTheirParts) {
  EXPECT_EQ(row_name("op", "relu", "forward", "native", "fp32", {"elements:8", "cache:cold"}),
            "op/relu/forward/native/fp32/elements:8/cache:cold");
}

// The suffixes that the suite predicts are those that Google Benchmark makes.
class Collector : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) names.push_back(run.benchmark_name());
  }
  std::vector<std::string> names;
};

TEST(Names, HaveTheSuffixOfGoogleBenchmark) {
  const auto body = [](benchmark::State& state) {
    while (state.KeepRunning()) state.SetIterationTime(1);
  };
  const std::vector<std::string> names = {"op/a/b/c/fp32", "step/a/b/c/fp32", "epoch/a/b/c/fp32"};
  benchmark::RegisterBenchmark(names[0].c_str(), body)->UseManualTime();
  benchmark::RegisterBenchmark(names[1].c_str(), body)->UseRealTime();
  benchmark::RegisterBenchmark(names[2].c_str(), body)->UseRealTime()->Iterations(1);
  std::vector<std::string> arguments = {"names_test", "--benchmark_min_time=0.001"};
  std::vector<char*> argv = {arguments[0].data(), arguments[1].data(), nullptr};
  int argc = 2;
  benchmark::Initialize(&argc, argv.data());
  Collector collector;
  benchmark::RunSpecifiedBenchmarks(&collector, ".");
  ASSERT_EQ(collector.names.size(), names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(collector.names[i], names[i] + std::string(name_suffix(names[i])));
  }
}

TEST(Names, FixTimingAndUnitPerFamily) {
  EXPECT_EQ(family_timing("copy/x").unit, benchmark::kMicrosecond);
  EXPECT_EQ(family_timing("machine/x").unit, benchmark::kMillisecond);
  EXPECT_EQ(family_timing("ledger/x").clock, Clock::kOnce);
  EXPECT_THROW(family_timing("operation/x"), std::logic_error);
}

}  // namespace
}  // namespace trainbench
