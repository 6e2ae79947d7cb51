#include "data/known_files.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string_view>

namespace trainbench {

namespace {

struct KnownFile {
  std::string_view set, file, sha256;  // Of the unpacked content.
};

// MNIST and Fashion-MNIST agree with the MD5 sums published for their unpacked files; those of
// CIFAR-10 are the published SHA-256 sums of the members of cifar-10-binary.tar.gz.
constexpr std::array kKnownFiles = {
    KnownFile{"mnist", "train-images",
              "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"},
    KnownFile{"mnist", "train-labels",
              "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"},
    KnownFile{"mnist", "t10k-images",
              "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"},
    KnownFile{"mnist", "t10k-labels",
              "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"},
    KnownFile{"fashion_mnist", "train-images",
              "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"},
    KnownFile{"fashion_mnist", "train-labels",
              "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"},
    KnownFile{"fashion_mnist", "t10k-images",
              "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"},
    KnownFile{"fashion_mnist", "t10k-labels",
              "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"},
    KnownFile{"cifar10", "data_batch_1.bin",
              "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"},
    KnownFile{"cifar10", "data_batch_2.bin",
              "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"},
    KnownFile{"cifar10", "data_batch_3.bin",
              "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"},
    KnownFile{"cifar10", "data_batch_4.bin",
              "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"},
    KnownFile{"cifar10", "data_batch_5.bin",
              "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"},
    KnownFile{"cifar10", "test_batch.bin",
              "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"}};

const KnownFile* find_known(std::string_view sha256) {
  const auto* const it = std::ranges::find(kKnownFiles, sha256, &KnownFile::sha256);
  return it == kKnownFiles.end() ? nullptr : it;
}

}  // namespace

std::string recognise(const std::string& folder, std::span<const ReadFile> files) {
  std::string set;
  bool complete = true;
  for (const ReadFile& file : files) {
    const KnownFile* known = find_known(file.sha256);
    if (known == nullptr) {
      complete = false;
      continue;
    }
    if (known->file != file.part || (!set.empty() && set != known->set)) {
      throw std::runtime_error(folder + ": " + file.part + " holds " + std::string(known->file) +
                               " of " + std::string(known->set) +
                               (set.empty() ? "" : ", beside files of " + set) +
                               "; keep each set in a folder of its own");
    }
    set = known->set;
  }
  return complete ? set : "";
}

std::string short_checksums(std::span<const ReadFile> files) {
  constexpr std::size_t kDigits = 12;
  std::string text;
  for (const ReadFile& file : files) {
    text += (text.empty() ? "" : "+") + file.sha256.substr(0, kDigits);
  }
  return text;
}

}  // namespace trainbench
