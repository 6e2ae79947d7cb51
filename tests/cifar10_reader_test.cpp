#include "data/cifar10_reader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/sha256.hpp"
#include "tests/data_files.hpp"

namespace trainbench {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int kPlane = 32 * 32;
constexpr int kRecord = 1 + 3 * kPlane;

// One record with constant planes.
Bytes record(std::uint8_t label, std::uint8_t red, std::uint8_t green, std::uint8_t blue) {
  Bytes bytes = {label};
  for (const std::uint8_t value : {red, green, blue}) bytes.insert(bytes.end(), kPlane, value);
  return bytes;
}

Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class Cifar10Reader : public ::testing::Test {
 protected:
  std::string error(const Bytes& bytes, std::int64_t records) {
    return error_of([&] { read_cifar10_batch(folder_.write("batch.bin", bytes), records); });
  }
  TemporaryFolder folder_;
};

TEST_F(Cifar10Reader, TransposesPlanesToChannelsLast) {
  Bytes first = record(9, 10, 20, 30);
  first[1 + kPlane + 3 * 32 + 7] = 200;  // Green, row 3, column 7.
  const Bytes file = first + record(0, 1, 2, 3);
  for (const Bytes& content : {file, gzip(file)}) {
    const Cifar10Batch batch = read_cifar10_batch(folder_.write("batch.bin", content), 2);
    EXPECT_THAT(batch.labels, ElementsAre(9, 0));
    ASSERT_EQ(batch.images.size(), 2u * 3 * kPlane);
    for (int row = 0; row < 32; ++row) {
      for (int column = 0; column < 32; ++column) {
        const auto pixel = static_cast<std::size_t>((row * 32 + column) * 3);
        const bool marker = row == 3 && column == 7;
        ASSERT_EQ(batch.images[pixel], 10);
        ASSERT_EQ(batch.images[pixel + 1], marker ? 200 : 20) << row << " " << column;
        ASSERT_EQ(batch.images[pixel + 2], 30);
      }
    }
    EXPECT_EQ(batch.images[3 * kPlane + 2], 3);
    EXPECT_EQ(batch.sha256, sha256(file));
  }
}

TEST_F(Cifar10Reader, KeepsBytesThatLookLikeWhiteSpace) {
  const Cifar10Batch batch =
      read_cifar10_batch(folder_.write("batch.bin", record(9, 0x0a, 0x0d, 0x1a)), 1);
  EXPECT_EQ(batch.images[0], 0x0a);
  EXPECT_EQ(batch.images[1], 0x0d);
  EXPECT_EQ(batch.images[2], 0x1a);
}

TEST_F(Cifar10Reader, RejectsFilesCutAnywhere) {
  const Bytes file = record(1, 1, 1, 1) + record(2, 2, 2, 2);
  for (const int size : {0, 1, 3072, kRecord, kRecord + 1, 2 * kRecord - 1}) {
    EXPECT_THAT(error(Bytes(file.begin(), file.begin() + size), 2),
                AllOf(StartsWith(folder_.path("batch.bin") + ": "),
                      HasSubstr("expected 6146 bytes (2 records of 3073: a label and 3x32x32 "
                                "pixels), found " +
                                std::to_string(size) + ": cut short")));
  }
  const Bytes packed = gzip(file);
  for (std::size_t size = 2; size < packed.size(); ++size) {
    EXPECT_THAT(error(Bytes(packed.begin(), packed.begin() + static_cast<int>(size)), 2),
                HasSubstr("the gzip data stops early"));
  }
}

TEST_F(Cifar10Reader, ExpectsTenThousandRecordsUnlessToldOtherwise) {
  EXPECT_THAT(error_of([&] { read_cifar10_batch(folder_.write("b", record(1, 1, 1, 1))); }),
              HasSubstr("expected 30730000 bytes (10000 records of 3073"));
}

TEST_F(Cifar10Reader, RejectsBytesAfterTheEnd) {
  EXPECT_THAT(error(record(1, 1, 1, 1) + Bytes(5), 1), HasSubstr("found 3078: 5 bytes too many"));
}

TEST_F(Cifar10Reader, RejectsLabelsOutOfRange) {
  EXPECT_EQ(error(record(9, 0, 0, 0) + record(10, 0, 0, 0), 2),
            folder_.path("batch.bin") + ": label of record 1 is 10, allowed are 0 to 9");
  EXPECT_THAT(error(record(255, 0, 0, 0), 1),
              HasSubstr("label of record 0 is 255, allowed are 0 to 9"));
}

TEST_F(Cifar10Reader, KnowsWebPagesAndMissingFiles) {
  const std::string page = "<!doctype html><title>503</title>";
  EXPECT_THAT(error(Bytes(page.begin(), page.end()), 1), HasSubstr("looks like an HTML page"));
  EXPECT_THAT(error_of([&] { read_cifar10_batch(folder_.path("none"), 1); }),
              HasSubstr("there is no such file"));
}

}  // namespace
}  // namespace trainbench
