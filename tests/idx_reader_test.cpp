#include "data/idx_reader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>

#include "data/sha256.hpp"
#include "tests/data_files.hpp"

namespace trainbench {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Bytes that a reader in text mode, or one that skips white space, would change or stop at.
const Bytes kNastyBytes = {0x09, 0x0a, 0x0d, 0x1a, 0x20, 0x00, 0xff, 0x0b, 0x0c, 0x0d, 0x0a, 0x20};

class IdxReader : public ::testing::Test {
 protected:
  std::string images_error(const Bytes& bytes) {
    return error_of([&] { read_idx_images(folder_.write("images", bytes)); });
  }
  std::string labels_error(const Bytes& bytes) {
    return error_of([&] { read_idx_labels(folder_.write("labels", bytes)); });
  }
  TemporaryFolder folder_;
};

TEST_F(IdxReader, KeepsEveryByteOfImages) {
  const Bytes file = idx(0x803, {2, 2, 3}, kNastyBytes);
  for (const Bytes& content : {file, gzip(file)}) {
    const IdxImages images = read_idx_images(folder_.write("images", content));
    EXPECT_EQ(images.count, 2);
    EXPECT_EQ(images.height, 2);
    EXPECT_EQ(images.width, 3);
    EXPECT_EQ(images.pixels, kNastyBytes);
    EXPECT_EQ(images.sha256, sha256(file));
  }
}

TEST_F(IdxReader, KeepsEveryByteOfLabels) {
  const Bytes file = idx(0x801, {5}, {9, 0, 3, 9, 1});
  for (const Bytes& content : {file, gzip(file)}) {
    const IdxLabels labels = read_idx_labels(folder_.write("labels", content));
    EXPECT_THAT(labels.labels, ElementsAre(9, 0, 3, 9, 1));
    EXPECT_EQ(labels.sha256, sha256(file));
  }
}

TEST_F(IdxReader, TellsGzipByContentNotByName) {
  const Bytes file = idx_images(3, 28, 28, 7);
  EXPECT_EQ(read_idx_images(folder_.write("train-images-idx3-ubyte", gzip(file))).count, 3);
  EXPECT_EQ(read_idx_images(folder_.write("train-images-idx3-ubyte.gz", file)).count, 3);
}

TEST_F(IdxReader, ReadsGzipDataOfSeveralMembers) {
  const Bytes file = idx_images(2, 4, 4, 1);
  const auto middle = file.begin() + 20;
  Bytes packed = gzip(Bytes(file.begin(), middle));
  const Bytes second = gzip(Bytes(middle, file.end()));
  packed.insert(packed.end(), second.begin(), second.end());
  EXPECT_EQ(read_idx_images(folder_.write("images", packed)).pixels, Bytes(32, 1));
}

TEST_F(IdxReader, NamesFileAndMagicNumbers) {
  EXPECT_THAT(
      images_error(idx(0x03080000, {0x01000000, 0x1c000000, 0x1c000000}, Bytes(784))),
      AllOf(StartsWith(folder_.path("images") + ": "),
            HasSubstr("bad magic 0x03080000, expected 0x00000803"), HasSubstr("byte-swapped")));
  EXPECT_THAT(images_error(idx_labels(20)),
              HasSubstr("bad magic 0x00000801, expected 0x00000803 (this file holds labels)"));
  EXPECT_THAT(labels_error(idx_images(1, 28, 28)),
              HasSubstr("bad magic 0x00000803, expected 0x00000801 (this file holds images)"));
  EXPECT_THAT(labels_error(Bytes(100, 0x42)),
              HasSubstr("bad magic 0x42424242, expected 0x00000801"));
}

TEST_F(IdxReader, RejectsFilesCutAnywhere) {
  const Bytes file = idx_images(2, 5, 5, 3);
  for (const std::size_t size : {0, 1, 3, 4, 15}) {
    EXPECT_THAT(images_error(Bytes(file.begin(), file.begin() + static_cast<int>(size))),
                HasSubstr("expected at least the 16 bytes of an IDX header, found " +
                          std::to_string(size)));
  }
  for (const std::size_t size :
       {std::size_t{16}, std::size_t{17}, file.size() / 2, file.size() - 1}) {
    EXPECT_THAT(images_error(Bytes(file.begin(), file.begin() + static_cast<int>(size))),
                HasSubstr("expected 66 bytes (2 images of 5x5), found " + std::to_string(size) +
                          ": cut short"));
  }
  const Bytes labels = idx_labels(20);
  for (std::size_t size = 0; size < labels.size(); ++size) {
    EXPECT_THAT(labels_error(Bytes(labels.begin(), labels.begin() + static_cast<int>(size))),
                HasSubstr("found " + std::to_string(size)));
  }
}

TEST_F(IdxReader, RejectsGzipDataCutAnywhere) {
  Bytes payload(2 * 28 * 28);
  for (std::size_t i = 0; i < payload.size(); ++i) {
    payload[i] = static_cast<std::uint8_t>(i * i % 251);
  }
  const Bytes packed = gzip(idx(0x803, {2, 28, 28}, payload));
  for (std::size_t size = 0; size < packed.size(); ++size) {
    const Bytes cut(packed.begin(), packed.begin() + static_cast<int>(size));
    EXPECT_THAT(images_error(cut), AllOf(HasSubstr("expected "), HasSubstr("found ")))
        << size << " of " << packed.size() << " bytes";
  }
  // All pixels are there, but the checksum that follows them is not.
  EXPECT_THAT(images_error(Bytes(packed.begin(), packed.end() - 1)),
              HasSubstr("expected 1584 bytes (2 images of 28x28), found 1584; the gzip data stops "
                        "early, after " +
                        std::to_string(packed.size() - 1) + " bytes"));
}

TEST_F(IdxReader, RejectsGzipDataWithABrokenChecksum) {
  Bytes packed = gzip(idx_images(2, 28, 28, 5));
  packed[packed.size() - 8] ^= 1;  // The CRC-32 lies before the length.
  EXPECT_THAT(images_error(packed), HasSubstr("the gzip data is broken (incorrect data check)"));
  packed[packed.size() - 8] ^= 1;
  packed[packed.size() - 1] ^= 1;
  EXPECT_THAT(images_error(packed), HasSubstr("the gzip data is broken (incorrect length check)"));
}

TEST_F(IdxReader, RejectsBrokenGzipHeadersAndBlocks) {
  Bytes packed = gzip(idx_images(2, 28, 28, 5));
  packed[2] = 0;  // The method: only 8 exists.
  EXPECT_THAT(images_error(packed), HasSubstr("IDX header, found 0; the gzip data is broken"));
  packed[2] = 8;
  packed[10] = 0xff;  // The first block's type.
  EXPECT_THAT(images_error(packed), HasSubstr("the gzip data is broken"));
}

TEST_F(IdxReader, RejectsBytesAfterTheEnd) {
  Bytes file = idx_images(2, 5, 5);
  Bytes packed = gzip(file);
  file.push_back(0);
  EXPECT_THAT(images_error(file), HasSubstr("expected 66 bytes (2 images of 5x5), found 67: 1 "
                                            "bytes too many"));
  packed.insert(packed.end(), {1, 2, 3});
  EXPECT_THAT(images_error(packed), HasSubstr("3 bytes follow the end of the gzip data"));
}

TEST_F(IdxReader, RejectsBogusDimensionsBeforeItAllocatesForThem) {
  const Bytes payload(784);
  EXPECT_THAT(images_error(idx(0x803, {0, 28, 28}, {})), HasSubstr("0 images of 28x28"));
  EXPECT_THAT(images_error(idx(0x803, {1, 0, 28}, payload)), HasSubstr("bogus dimensions"));
  EXPECT_THAT(images_error(idx(0x803, {1, 28, 5000}, payload)),
              HasSubstr("bogus dimensions: its header says 1 images of 28x5000"));
  EXPECT_THAT(images_error(idx(0x803, {0xffffffff, 0xffffffff, 0xffffffff}, payload)),
              HasSubstr("bogus dimensions"));
  // 2^32 - 1 images of 16 MiB: more than any memory, and no product that wraps to 784.
  EXPECT_THAT(images_error(idx(0x803, {0xffffffff, 4096, 4096}, payload)),
              HasSubstr("expected 72057594021150736 bytes"));
  EXPECT_THAT(labels_error(idx(0x801, {0xffffffff}, payload)),
              HasSubstr("expected 4294967303 bytes (4294967295 labels), found 792"));
  EXPECT_THAT(labels_error(idx(0x801, {0}, {})), HasSubstr("bogus dimensions"));
}

TEST_F(IdxReader, RejectsLabelsOutOfRange) {
  Bytes labels(30, 9);
  labels[17] = 10;
  EXPECT_EQ(labels_error(idx(0x801, {30}, labels)),
            folder_.path("labels") + ": label of record 17 is 10, allowed are 0 to 9");
  labels[0] = 255;
  EXPECT_THAT(labels_error(idx(0x801, {30}, labels)),
              HasSubstr("label of record 0 is 255, allowed are 0 to 9"));
}

TEST_F(IdxReader, KnowsWebPagesThatServersSendInstead) {
  for (const std::string page :
       {"<!DOCTYPE html><html><body>404</body></html>", "<html>\n<head>", "  \r\n<HTML>",
        "\xef\xbb\xbf<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code></Error>"}) {
    for (const Bytes& content :
         {Bytes(page.begin(), page.end()), gzip(Bytes(page.begin(), page.end()))}) {
      EXPECT_THAT(images_error(content), HasSubstr("looks like an HTML page: download failed?"));
      EXPECT_THAT(labels_error(content), HasSubstr("looks like an HTML page: download failed?"));
    }
  }
}

TEST_F(IdxReader, NamesFilesThatAreNone) {
  EXPECT_EQ(error_of([&] { read_idx_images(folder_.path("nothing")); }),
            folder_.path("nothing") + ": there is no such file");
  EXPECT_THAT(error_of([&] { read_idx_labels(folder_.path()); }), HasSubstr("is no regular file"));
}

TEST(Sha256, AgreesWithPublishedValues) {
  const auto of = [](const std::string& text) {
    return sha256(std::span(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
  };
  // FIPS 180-4's examples, and lengths around the end of a block.
  EXPECT_EQ(of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(of(std::string(55, 'a')),
            "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
  EXPECT_EQ(of(std::string(56, 'a')),
            "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
  EXPECT_EQ(of(std::string(64, 'a')),
            "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
  EXPECT_EQ(of(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

}  // namespace
}  // namespace trainbench
