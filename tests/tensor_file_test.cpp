// Files of tensors and of a model's state: written and read back, and bad ones refused.

#include "data/tensor_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/model_file.hpp"
#include "data/models.hpp"
#include "tests/data_files.hpp"

namespace trainbench {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Bytes bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

// A file with this header and, behind it, this many bytes.
Bytes file_of(const std::string& header, std::size_t data_bytes) {
  const std::string length = {static_cast<char>(header.size()), 0, 0, 0, 0, 0, 0, 0};
  return bytes_of(length + header + std::string(data_bytes, '\7'));
}

class TensorFiles : public ::testing::Test {
 protected:
  TensorFile read(const Bytes& bytes) {
    return read_tensor_file(folder_.write("x.safetensors", bytes));
  }
  std::string error(const Bytes& bytes) {
    return error_of([&] { read(bytes); });
  }
  TemporaryFolder folder_;
};

TEST_F(TensorFiles, KeepEverything) {
  const std::vector<float> floats = {1.5f, -0.0f, 3e-40f, 7, 8, 9};
  const std::vector<double> doubles = {0.1};
  const std::vector<std::uint8_t> bytes = {0, 255};
  TensorFile file;
  file.metadata = {{"model", "a \"quoted\" one"}};
  file.tensors = {make_tensor<std::uint8_t>("odd", {2}, bytes),
                  make_tensor<float>("w", {2, 3}, floats), make_tensor<double>("d", {1}, doubles),
                  make_tensor<float>("none", {0, 4}, {})};
  const TensorFile got = read(bytes_of(tensor_file_bytes(file)));
  EXPECT_EQ(got.metadata, file.metadata);
  ASSERT_EQ(got.tensors.size(), 4);
  EXPECT_EQ(got.at("w").describe(), "F32 (2, 3)");
  EXPECT_TRUE(got.at("w").bytes == file.tensors[1].bytes);
  EXPECT_THAT(got.at("d").values<double>(), ElementsAre(0.1));
  EXPECT_THAT(got.at("odd").values<std::uint8_t>(), ElementsAre(0, 255));
  EXPECT_EQ(got.at("none").elements(), 0);
}

TEST_F(TensorFiles, ThatAreNoneAreRefused) {
  EXPECT_THAT(error({}), HasSubstr("too short"));
  EXPECT_THAT(error({1, 2, 3}), HasSubstr("too short"));
  EXPECT_THAT(error({255, 255, 255, 255, 255, 255, 255, 255, '{', '}'}), HasSubstr("header"));
  EXPECT_THAT(error(file_of("no json", 0)), HasSubstr("no safetensors file"));
  EXPECT_THAT(error(file_of("[1]", 0)), HasSubstr("no safetensors file"));
  EXPECT_THAT(error(file_of(R"({"w":{"dtype":"F32","shape":[2]}})", 8)), HasSubstr("data_offsets"));
  EXPECT_THAT(error(file_of(R"({"w":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}})", 4)),
              HasSubstr("BF16"));
  EXPECT_THAT(error(file_of(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 7)),
              AllOf(HasSubstr("x.safetensors: w"), HasSubstr("cut short")));
  EXPECT_THAT(error(file_of(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8)),
              HasSubstr("w"));
  EXPECT_THAT(error(file_of(R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8)),
              HasSubstr("has 12 bytes, not 8"));
  EXPECT_THAT(error(file_of(R"({"w":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8)),
              HasSubstr("shape"));
  EXPECT_THAT(
      error(file_of(R"({"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})",
                    0)),
      HasSubstr("shape"));
}

TEST_F(TensorFiles, NameWhatIsMissing) {
  const TensorFile file =
      read(file_of(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4));
  EXPECT_THAT(error_of([&] { file.at("v"); }), HasSubstr("no tensor v among w"));
  EXPECT_THAT(error_of([&] { file.at("w").values<double>(); }),
              HasSubstr("F32 (1), not of type F64"));
}

ModelState some_state(const ModelSpec& spec) {
  ModelState state = initial_state(spec, 3);
  for (std::size_t i = 0; i < state.parameters.size(); ++i) {
    state.first_moments[i] = static_cast<float>(i);
    state.second_moments[i] = static_cast<float>(i) + 0.5f;
  }
  state.step = 17;
  return state;
}

TEST(ModelFiles, KeepTheState) {
  const ModelSpec spec = cifar10_cnn(2);
  const ModelState state = some_state(spec);
  const TensorFile file = state_to_tensors(spec, state);
  EXPECT_EQ(file.at("conv2.w").describe(), "F32 (3, 3, 2, 2)");
  EXPECT_EQ(file.at("adam.v.dense1.bias").describe(), "F32 (128)");
  const ModelState got = state_from_tensors(spec, file);
  EXPECT_EQ(got.parameters, state.parameters);
  EXPECT_EQ(got.first_moments, state.first_moments);
  EXPECT_EQ(got.second_moments, state.second_moments);
  EXPECT_EQ(got.step, 17);
}

TEST(ModelFiles, WeightsAloneStartAnew) {
  const ModelSpec spec = mnist_mlp(1, 3);
  const TensorFile file = weights_to_tensors(spec, some_state(spec));
  const ModelState got = state_from_tensors(spec, file);
  EXPECT_EQ(got.parameters, some_state(spec).parameters);
  EXPECT_THAT(got.first_moments, ::testing::Each(0));
  EXPECT_EQ(got.step, 0);
}

TEST(ModelFiles, OfAnotherModelAreRefused) {
  const ModelSpec spec = mnist_mlp(1, 3);
  const TensorFile file = state_to_tensors(spec, some_state(spec));
  EXPECT_THAT(error_of([&] { state_from_tensors(mnist_mlp(1, 4), file); }),
              HasSubstr("dense1.w is F32 (784, 3), but mnist_mlp of this size has F32 (784, 4)"));
  EXPECT_THAT(error_of([&] { state_from_tensors(cifar10_cnn(), file); }),
              HasSubstr("no tensor conv1.w"));
  EXPECT_THAT(error_of([&] { state_from_tensors(mnist_mlp(2, 3), file); }), HasSubstr("dense2.w"));
  TensorFile more = file;
  more.tensors.push_back(make_tensor<float>("dense9.w", {0}, {}));
  EXPECT_THAT(error_of([&] { state_from_tensors(spec, more); }), HasSubstr("14 tensors"));
}

}  // namespace
}  // namespace trainbench
