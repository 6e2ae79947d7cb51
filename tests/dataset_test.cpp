#include "data/dataset.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "data/known_files.hpp"
#include "data/models.hpp"
#include "data/synthetic.hpp"
#include "tests/data_files.hpp"

namespace trainbench {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint32_t kTrain = 30, kTest = 20;

// Spellings of an IDX file's name: between part and type, and at the end.
struct Spelling {
  std::string separator, suffix;
};

void write_idx_set(const TemporaryFolder& folder, const std::string& place,
                   const Spelling& spelling = {"-", ""}, std::uint32_t extent = 28) {
  const auto write = [&](const std::string& part, const std::string& type, const Bytes& bytes) {
    folder.write(place + "/" + part + spelling.separator + type + spelling.suffix,
                 spelling.suffix.empty() ? bytes : gzip(bytes));
  };
  write("train-images", "idx3-ubyte", idx_images(kTrain, extent, extent, 1));
  write("train-labels", "idx1-ubyte", idx_labels(kTrain));
  write("t10k-images", "idx3-ubyte", idx_images(kTest, extent, extent, 2));
  write("t10k-labels", "idx1-ubyte", idx_labels(kTest));
}

// Six batches of black pictures of class 0, as sparse files.
void write_cifar10_set(const TemporaryFolder& folder, const std::string& place) {
  for (const std::string name : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                 "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"}) {
    fs::resize_file(folder.write(place + "/" + name, Bytes{}), 30730000);
  }
}

// As load_for_model on a machine without the system's Fashion-MNIST unless one is given.
TrainTest load(const ModelSpec& spec, const std::string& data_dir,
               const std::string& system_dir = "/nonexistent") {
  return load_for_model(spec, data_dir, system_dir);
}

TEST(LoadIdx, FindsEverySpellingInEveryLayout) {
  for (const Spelling& spelling :
       {Spelling{"-", ""}, Spelling{".", ""}, Spelling{"-", ".gz"}, Spelling{".", ".gz"}}) {
    for (const std::string place :
         {"mnist", "MNIST/raw", "fashion-mnist", "fashion_mnist", "FashionMNIST/raw", "raw", "."}) {
      const TemporaryFolder folder;
      write_idx_set(folder, place, spelling);
      const TrainTest data = load(mnist_mlp(), folder.path());
      EXPECT_EQ(data.train.count(), kTrain) << place;
      EXPECT_EQ(data.test.count(), kTest) << place;
    }
  }
}

TEST(LoadIdx, HoldsWhatTheFilesHold) {
  const TemporaryFolder folder;
  write_idx_set(folder, "mnist");
  const TrainTest data = load_idx(folder.path("mnist"), "mnist");
  const DatasetView view = data.train.view();
  EXPECT_EQ(view.sample, (Shape{28, 28, 1}));
  EXPECT_EQ(view.count, kTrain);
  EXPECT_EQ(view.classes, 10);
  EXPECT_EQ(view.images, data.train.images.data());
  EXPECT_EQ(data.train.images, Bytes(kTrain * 28 * 28, 1));
  EXPECT_EQ(data.test.images, Bytes(kTest * 28 * 28, 2));
  EXPECT_EQ(view.labels[13], 3);
  EXPECT_EQ(data.train.source, folder.path("mnist"));
  EXPECT_EQ(data.train.checksum.size(), 25u);  // Twelve digits, '+', twelve digits.
  EXPECT_NE(data.train.checksum, data.test.checksum);
}

TEST(LoadIdx, MarksContentThatNoChecksumKnows) {
  const TemporaryFolder folder;
  write_idx_set(folder, "any");
  const TrainTest data = load_idx(folder.path("any"), "fashion_mnist");
  EXPECT_EQ(data.train.name, "fashion_mnist_unverified");
  EXPECT_EQ(data.test.name, "fashion_mnist_unverified");
  EXPECT_THAT(data.warnings, ElementsAre(HasSubstr("not those of a known set")));
  EXPECT_EQ(load_idx(folder.path("any")).train.name, "idx_unverified");
}

TEST(LoadIdx, NamesThePartThatIsMissing) {
  const TemporaryFolder folder;
  write_idx_set(folder, "mnist");
  fs::remove(folder.path("mnist/t10k-labels-idx1-ubyte"));
  const auto want = AllOf(HasSubstr(folder.path("mnist") + " lacks t10k-labels"),
                          HasSubstr("t10k-labels-idx1-ubyte, t10k-labels.idx1-ubyte, "
                                    "t10k-labels-idx1-ubyte.gz, t10k-labels.idx1-ubyte.gz"));
  EXPECT_THAT(error_of([&] { load(mnist_mlp(), folder.path()); }), want);
  fs::remove(folder.path("mnist/train-images-idx3-ubyte"));
  EXPECT_THAT(error_of([&] { load(mnist_mlp(), folder.path()); }), HasSubstr("lacks train-images"));
}

TEST(LoadIdx, RejectsFilesThatDoNotFitTogether) {
  const TemporaryFolder folder;
  write_idx_set(folder, "set");
  folder.write("set/train-labels-idx1-ubyte", idx_labels(kTrain - 1));
  EXPECT_THAT(error_of([&] { load_idx(folder.path("set")); }),
              HasSubstr("train-images-idx3-ubyte holds 30 images, but " +
                        folder.path("set/train-labels-idx1-ubyte") + " holds 29 labels"));
  write_idx_set(folder, "set");
  folder.write("set/t10k-images-idx3-ubyte", idx_images(kTest, 28, 27));
  EXPECT_THAT(error_of([&] { load_idx(folder.path("set")); }),
              HasSubstr("training images are 28x28x1, test images 28x27x1"));
}

TEST(LoadIdx, RejectsPicturesThatTheModelCannotTake) {
  const TemporaryFolder folder;
  write_idx_set(folder, "mnist", {"-", ""}, 20);
  EXPECT_THAT(error_of([&] { load(mnist_mlp(), folder.path()); }),
              HasSubstr("holds pictures of 20x20x1; the model needs 28x28x1"));
}

// Published checksums.
const ReadFile kMnistTrainImages = {
    "train-images", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"};
const ReadFile kMnistTrainLabels = {
    "train-labels", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"};
const ReadFile kFashionTrainLabels = {
    "train-labels", "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"};

TEST(Recognise, NamesASetOnlyWhenAllItsFilesAreKnown) {
  const auto set = [](const std::vector<ReadFile>& files) { return recognise("folder", files); };
  EXPECT_EQ(set({kMnistTrainImages, kMnistTrainLabels}), "mnist");
  EXPECT_EQ(set({kFashionTrainLabels}), "fashion_mnist");
  EXPECT_EQ(set({kMnistTrainImages, {"train-labels", "unknown"}}), "");
}

TEST(Recognise, RejectsKnownFilesInTheWrongPlace) {
  const std::vector<ReadFile> mixed = {kMnistTrainImages, kFashionTrainLabels};
  EXPECT_THAT(error_of([&] { recognise("folder", mixed); }),
              HasSubstr("folder: train-labels holds train-labels of fashion_mnist, beside files of "
                        "mnist"));
  const std::vector<ReadFile> swapped = {{"t10k-labels", kMnistTrainLabels.sha256}};
  EXPECT_THAT(error_of([&] { recognise("folder", swapped); }),
              HasSubstr("t10k-labels holds train-labels of mnist"));
}

TEST(LoadCifar10, ReadsAllBatchesInOrder) {
  const TemporaryFolder folder;
  write_cifar10_set(folder, "cifar-10-batches-bin");
  for (int batch = 1; batch <= 5; ++batch) {
    std::fstream file(
        folder.path("cifar-10-batches-bin/data_batch_" + std::to_string(batch) + ".bin"),
        std::ios::binary | std::ios::in | std::ios::out);
    file.put(static_cast<char>(batch));
  }
  const TrainTest data = load(cifar10_cnn(), folder.path());
  EXPECT_EQ(data.train.count(), 50000);
  EXPECT_EQ(data.test.count(), 10000);
  EXPECT_EQ(data.train.sample, (Shape{32, 32, 3}));
  for (std::size_t batch = 0; batch < 5; ++batch) {
    EXPECT_EQ(data.train.labels[batch * 10000], batch + 1);
  }
  EXPECT_EQ(data.train.name, "cifar10_unverified");
  EXPECT_EQ(data.warnings.size(), 1u);
}

TEST(LoadCifar10, NamesTheBatchThatIsUnsound) {
  const TemporaryFolder folder;
  write_cifar10_set(folder, ".");
  fs::resize_file(folder.path("data_batch_3.bin"), 30729999);
  EXPECT_THAT(error_of([&] { load(cifar10_cnn(), folder.path()); }),
              AllOf(HasSubstr("data_batch_3.bin"), HasSubstr("found 30729999")));
  fs::remove(folder.path("test_batch.bin"));
  fs::resize_file(folder.path("data_batch_3.bin"), 30730000);
  EXPECT_THAT(error_of([&] { load(cifar10_cnn(), folder.path()); }),
              HasSubstr("test_batch.bin: there is no such file"));
}

TEST(PadAndRepeat, PutsPicturesInTheMiddleOfEqualChannels) {
  Dataset data{.name = "x",
               .sample = {2, 3, 1},
               .images = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12},
               .labels = {4, 5},
               .source = "s",
               .checksum = "c"};
  const Dataset padded = pad_and_repeat(data, {4, 5, 2}, 1);
  EXPECT_EQ(padded.name, "x_4x5x2");
  EXPECT_THAT(padded.labels, ElementsAre(4));
  EXPECT_THAT(padded.images, ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  //
                                         0, 0, 1, 1, 2, 2, 3, 3, 0, 0,  //
                                         0, 0, 4, 4, 5, 5, 6, 6, 0, 0,  //
                                         0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_EQ(pad_and_repeat(data, {2, 3, 1}, 9).images, data.images);
  EXPECT_THROW(pad_and_repeat(data, {2, 2, 3}, 9), std::invalid_argument);
  EXPECT_THROW(pad_and_repeat(padded, {9, 9, 2}, 9), std::invalid_argument);
}

TEST(LoadForModel, FallsBackToTheSystemsPictures) {
  const TemporaryFolder folder;
  write_idx_set(folder, "system");
  const TrainTest mlp = load(mnist_mlp(), "", folder.path("system"));
  EXPECT_EQ(mlp.train.name, "fashion_mnist_unverified");
  const TrainTest cnn = load(cifar10_cnn(), "", folder.path("system"));
  EXPECT_EQ(cnn.train.name, "fashion_mnist_unverified_32x32x3");
  EXPECT_EQ(cnn.train.sample, (Shape{32, 32, 3}));
  EXPECT_EQ(cnn.train.count(), kTrain);
  EXPECT_EQ(cnn.train.images[0], 0);
  EXPECT_EQ(cnn.train.images[(2 * 32 + 2) * 3], 1);
}

TEST(LoadForModel, FallsBackToSyntheticPicturesWithAWarning) {
  const TrainTest mlp = load(mnist_mlp(), "");
  EXPECT_EQ(mlp.train.name, "synthetic_28x28x1");
  EXPECT_EQ(mlp.train.count(), 60000);
  EXPECT_EQ(mlp.test.count(), 10000);
  EXPECT_THAT(mlp.warnings, ElementsAre(HasSubstr("synthetic ones are used")));
  EXPECT_EQ(load(cifar10_cnn(), "").train.name, "synthetic_32x32x3");
}

TEST(LoadForModel, NeverFallsBackSilentlyFromAFolderThatWasNamed) {
  const TemporaryFolder folder;
  EXPECT_THAT(error_of([&] { load(mnist_mlp(), folder.path()); }),
              AllOf(HasSubstr("holds none of MNIST, Fashion-MNIST and CIFAR-10"),
                    HasSubstr("train-images.idx3-ubyte.gz"), HasSubstr("FashionMNIST/raw"),
                    HasSubstr("data_batch_1.bin"), HasSubstr("tools/fetch_data all")));
  EXPECT_THAT(error_of([&] { load(cifar10_cnn(), folder.path("none")); }),
              HasSubstr("is no folder"));

  write_idx_set(folder, "mnist");
  ::testing::internal::CaptureStderr();
  const TrainTest cnn = load(cifar10_cnn(), folder.path());
  const std::string printed = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(cnn.train.name, "synthetic_32x32x3");
  EXPECT_THAT(cnn.warnings.back(),
              HasSubstr("has no pictures of 32x32x3 for cifar10_cnn: synthetic_32x32x3 is used"));
  for (const std::string& warning : cnn.warnings) {
    EXPECT_THAT(printed, HasSubstr("warning: " + warning + "\n"));
  }
}

TEST(LoadForModel, PrefersMnistForMlpsAndFashionMnistForThePaddedSet) {
  const TemporaryFolder folder;
  write_idx_set(folder, "FashionMNIST/raw");
  write_idx_set(folder, "mnist");
  EXPECT_EQ(load(mnist_mlp(), folder.path()).train.source, folder.path("mnist"));
  EXPECT_EQ(load(cifar10_cnn(), folder.path()).train.source, folder.path("FashionMNIST/raw"));
}

TEST(LoadForModel, KnowsAFolderThatIsItselfALayout) {
  const TemporaryFolder folder;
  write_idx_set(folder, "FashionMNIST/raw");
  EXPECT_EQ(load(mnist_mlp(), folder.path("FashionMNIST/raw")).train.name,
            "fashion_mnist_unverified");
  EXPECT_EQ(load(mnist_mlp(), folder.path("FashionMNIST")).train.name, "fashion_mnist_unverified");
}

TEST(Synthetic, IsTheSameEverywhere) {
  const Dataset data = synthetic({28, 28, 1}, 10, 100, 1);
  EXPECT_EQ(data.name, "synthetic_28x28x1");
  EXPECT_EQ(data.images, synthetic({28, 28, 1}, 10, 100, 1).images);
  EXPECT_NE(data.images, synthetic({28, 28, 1}, 10, 100, 2).images);
  EXPECT_THAT(Bytes(data.labels.begin(), data.labels.begin() + 6), ElementsAre(1, 4, 0, 4, 8, 0));
  EXPECT_THAT(Bytes(data.images.begin(), data.images.begin() + 6),
              ElementsAre(151, 137, 114, 32, 238, 134));
}

TEST(Synthetic, ContinuesWhereAnotherPartEnds) {
  const Dataset whole = synthetic({3, 3, 1}, 4, 20, 5);
  const Dataset tail = synthetic({3, 3, 1}, 4, 8, 5, 12);
  EXPECT_EQ(tail.labels, Bytes(whole.labels.begin() + 12, whole.labels.end()));
  EXPECT_EQ(tail.images, Bytes(whole.images.begin() + 12 * 9, whole.images.end()));
}

// The nearest class mean of a training half classifies the other half: there is something to learn.
TEST(Synthetic, CanBeLearned) {
  constexpr std::int64_t kClasses = 5, kCount = 400;
  const Dataset data = synthetic({8, 8, 3}, kClasses, kCount, 3);
  constexpr std::size_t kElements = 8 * 8 * 3;
  std::vector<double> sums(kClasses * kElements), counts(kClasses);
  for (std::size_t i = 0; i < kCount / 2; ++i) {
    counts[data.labels[i]] += 1;
    for (std::size_t e = 0; e < kElements; ++e) {
      sums[data.labels[i] * kElements + e] += data.images[i * kElements + e];
    }
  }
  int correct = 0;
  for (std::size_t i = kCount / 2; i < kCount; ++i) {
    std::vector<double> distances(kClasses);
    for (std::size_t c = 0; c < kClasses; ++c) {
      for (std::size_t e = 0; e < kElements; ++e) {
        const double difference =
            data.images[i * kElements + e] - sums[c * kElements + e] / counts[c];
        distances[c] += difference * difference;
      }
    }
    correct += std::ranges::min_element(distances) - distances.begin() == data.labels[i];
  }
  EXPECT_GE(correct, 195);                                 // Of 200.
  for (const double count : counts) EXPECT_GT(count, 20);  // 40 expected.
}

TEST(Synthetic, RejectsSizesThatMakeNoSense) {
  EXPECT_THROW(synthetic({28, 28, 0}, 10, 5, 1), std::invalid_argument);
  EXPECT_THROW(synthetic({28, 28, 1}, 0, 5, 1), std::invalid_argument);
  EXPECT_THROW(synthetic({28, 28, 1}, 257, 5, 1), std::invalid_argument);
  EXPECT_THROW(synthetic({28, 28, 1}, 10, 0, 1), std::invalid_argument);
}

TEST(ClassesInFirst, CountsDifferentLabels) {
  const TemporaryFolder folder;
  write_idx_set(folder, "set");
  const TrainTest data = load_idx(folder.path("set"));
  EXPECT_EQ(classes_in_first(data.train.view(), 0), 0);
  EXPECT_EQ(classes_in_first(data.train.view(), 4), 4);
  EXPECT_EQ(classes_in_first(data.train.view(), 1000), 10);
}

// The real sets, where they are.

TEST(RealData, FashionMnistOfTheSystemIsRecognised) {
  if (!holds_idx(kSystemFashionMnist)) GTEST_SKIP() << "no " << kSystemFashionMnist;
  const TrainTest data = load_for_model(mnist_mlp(), "");
  EXPECT_EQ(data.train.name, "fashion_mnist");
  EXPECT_EQ(data.train.count(), 60000);
  EXPECT_EQ(data.test.count(), 10000);
  EXPECT_THAT(data.warnings, IsEmpty());
  // "Ankle boot, T-shirt, T-shirt, dress" are the first labels.
  EXPECT_THAT(Bytes(data.train.labels.begin(), data.train.labels.begin() + 4),
              ElementsAre(9, 0, 0, 3));
  EXPECT_EQ(classes_in_first(data.test.view(), 1000), 10);

  const TrainTest cnn = load_for_model(cifar10_cnn(), "");
  EXPECT_EQ(cnn.train.name, "fashion_mnist_32x32x3");
  EXPECT_EQ(cnn.train.count(), 50000);
  EXPECT_EQ(cnn.test.count(), 10000);
}

TEST(RealData, FashionMnistUnderAnotherNameIsNamedByItsChecksum) {
  if (!holds_idx(kSystemFashionMnist)) GTEST_SKIP() << "no " << kSystemFashionMnist;
  const TemporaryFolder folder;
  fs::create_directory_symlink(kSystemFashionMnist, folder.path("mnist"));
  const TrainTest data = load_for_model(mnist_mlp(), folder.path());
  EXPECT_EQ(data.train.name, "fashion_mnist");
  EXPECT_THAT(data.warnings,
              ElementsAre(HasSubstr("the name says mnist, but by their checksums the files are "
                                    "fashion_mnist")));
}

TEST(RealData, MnistInTheDataFolderIsRecognised) {
  const char* data_dir = std::getenv("TRAINBENCH_DATA_DIR");
  const std::string mnist = data_dir == nullptr ? "" : std::string(data_dir) + "/mnist";
  if (data_dir == nullptr || !holds_idx(mnist)) GTEST_SKIP() << "no TRAINBENCH_DATA_DIR with mnist";
  const TrainTest data = load_idx(mnist, "mnist");
  EXPECT_EQ(data.train.name, "mnist");
  EXPECT_THAT(data.warnings, IsEmpty());
  const TrainTest misplaced = load_idx(mnist, "fashion_mnist");
  EXPECT_EQ(misplaced.train.name, "mnist");
  EXPECT_THAT(misplaced.warnings, ElementsAre(HasSubstr("the name says fashion_mnist")));
}

}  // namespace
}  // namespace trainbench
