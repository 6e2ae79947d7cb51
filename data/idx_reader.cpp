#include "data/idx_reader.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <span>

#include "data/file_bytes.hpp"
#include "data/sha256.hpp"

namespace trainbench {

namespace {

// Two zero bytes, 8 for "unsigned byte", and the number of dimensions.
constexpr std::uint32_t kImagesMagic = 0x00000803;
constexpr std::uint32_t kLabelsMagic = 0x00000801;
// Larger pictures are no pictures of this kind: the header is broken.
constexpr std::uint32_t kMaxExtent = 4096;

std::string hex(std::uint32_t value) {
  char text[11];
  std::snprintf(text, sizeof text, "0x%08x", value);
  return text;
}

std::uint32_t word(const FileBytes& file, std::size_t index) {
  const std::uint8_t* bytes = file.bytes.data() + 4 * index;
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
         std::uint32_t{bytes[2]} << 8 | std::uint32_t{bytes[3]};
}

std::string explain(std::uint32_t magic) {
  if (magic == kImagesMagic) return " (this file holds images)";
  if (magic == kLabelsMagic) return " (this file holds labels)";
  if (magic == 0x03080000 || magic == 0x01080000) return " (the header is byte-swapped)";
  return "";
}

// Throws unless the file has a header of that many words that starts with `magic`.
void check_header(const FileBytes& file, std::uint32_t magic, std::size_t words) {
  if (file.bytes.size() >= 4 && word(file, 0) != magic) {
    file.reject("bad magic " + hex(word(file, 0)) + ", expected " + hex(magic) +
                explain(word(file, 0)));
  }
  if (file.bytes.size() < 4 * words) {
    file.reject("expected at least the " + std::to_string(4 * words) +
                " bytes of an IDX header, found " + std::to_string(file.bytes.size()) +
                (file.damage.empty() ? "" : "; " + file.damage) +
                "; fetch it again, for example with tools/fetch_data");
  }
}

std::span<const std::uint8_t> payload(const FileBytes& file, std::size_t words) {
  return std::span(file.bytes).subspan(4 * words);
}

}  // namespace

IdxImages read_idx_images(const std::string& path) {
  constexpr std::size_t kWords = 4;
  const FileBytes file = read_file_bytes(path);
  check_header(file, kImagesMagic, kWords);
  const std::uint32_t count = word(file, 1), height = word(file, 2), width = word(file, 3);
  const std::string header =
      std::to_string(count) + " images of " + std::to_string(height) + "x" + std::to_string(width);
  const auto possible = [](std::uint32_t extent) { return extent >= 1 && extent <= kMaxExtent; };
  if (count == 0 || !possible(height) || !possible(width)) {
    file.reject("bogus dimensions: its header says " + header + ", expected at least 1 image of " +
                "1x1 to " + std::to_string(kMaxExtent) + "x" + std::to_string(kMaxExtent));
  }
  // At most 2^32 * 2^24: no overflow.
  file.check_size(4 * kWords + std::uint64_t{count} * height * width, header);

  const auto pixels = payload(file, kWords);
  return {.count = count,
          .height = height,
          .width = width,
          .pixels = {pixels.begin(), pixels.end()},
          .sha256 = sha256(file.bytes)};
}

IdxLabels read_idx_labels(const std::string& path, std::int64_t classes) {
  constexpr std::size_t kWords = 2;
  const FileBytes file = read_file_bytes(path);
  check_header(file, kLabelsMagic, kWords);
  const std::uint32_t count = word(file, 1);
  if (count == 0) file.reject("bogus dimensions: its header says 0 labels, expected at least 1");
  file.check_size(4 * kWords + std::uint64_t{count}, std::to_string(count) + " labels");

  const auto labels = payload(file, kWords);
  const auto bad = std::ranges::find_if(labels, [=](int label) { return label >= classes; });
  if (bad != labels.end()) {
    file.reject("label of record " + std::to_string(bad - labels.begin()) + " is " +
                std::to_string(*bad) + ", allowed are 0 to " + std::to_string(classes - 1));
  }
  return {.labels = {labels.begin(), labels.end()}, .sha256 = sha256(file.bytes)};
}

}  // namespace trainbench
