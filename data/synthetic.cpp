#include "data/synthetic.hpp"

#include <cstddef>
#include <span>

#include "kernels/core/checks.hpp"
#include "kernels/core/threefry.hpp"

namespace trainbench {

namespace {

// Second key words of the generator: streams of one seed that never meet.
constexpr std::uint32_t kPrototypeStream = 0x70726f74;
constexpr std::uint32_t kNoiseStream = 0x6e6f6973;
constexpr std::uint32_t kLabelStream = 0x6c61626c;

// Fills `bytes` with random ones; the counter's first word is `index`.
void random_bytes(std::uint32_t seed, std::uint32_t stream, std::uint32_t index,
                  std::span<std::uint8_t> bytes) {
  for (std::size_t i = 0; i < bytes.size(); i += 8) {
    const auto words = threefry::block({seed, stream}, {index, static_cast<std::uint32_t>(i / 8)});
    for (std::size_t j = 0; j < 8 && i + j < bytes.size(); ++j) {
      bytes[i + j] = static_cast<std::uint8_t>(words[j / 4] >> (8 * (j % 4)));
    }
  }
}

}  // namespace

Dataset synthetic(const Shape& sample, std::int64_t classes, std::int64_t count, std::uint32_t seed,
                  std::int64_t first) {
  require(sample.elements() >= 1 && count >= 1 && first >= 0,
          "a synthetic set needs pictures with elements");
  require(classes >= 1 && classes <= 256, "a synthetic set has from 1 to 256 classes");
  const auto elements = static_cast<std::size_t>(sample.elements());
  Dataset data{.name = "synthetic_" + to_string(sample),
               .sample = sample,
               .classes = classes,
               .images = std::vector<std::uint8_t>(static_cast<std::size_t>(count) * elements),
               .labels = std::vector<std::uint8_t>(static_cast<std::size_t>(count)),
               .source = "generated from seed " + std::to_string(seed),
               .checksum = ""};

  std::vector<std::uint8_t> prototypes(static_cast<std::size_t>(classes) * elements);
  for (std::size_t c = 0; c < static_cast<std::size_t>(classes); ++c) {
    random_bytes(seed, kPrototypeStream, static_cast<std::uint32_t>(c),
                 std::span(prototypes).subspan(c * elements, elements));
  }
  for (std::size_t i = 0; i < data.labels.size(); ++i) {
    const auto index = static_cast<std::uint32_t>(static_cast<std::size_t>(first) + i);
    const std::uint32_t word = threefry::block({seed, kLabelStream}, {index, 0})[0];
    const auto label =
        static_cast<std::size_t>((std::uint64_t{word} * static_cast<std::uint64_t>(classes)) >> 32);
    data.labels[i] = static_cast<std::uint8_t>(label);
    const auto image = std::span(data.images).subspan(i * elements, elements);
    random_bytes(seed, kNoiseStream, index, image);
    for (std::size_t e = 0; e < elements; ++e) {
      image[e] = static_cast<std::uint8_t>((image[e] + prototypes[label * elements + e]) / 2);
    }
  }
  return data;
}

}  // namespace trainbench
