#include "data/reference_results.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

#include "data/models.hpp"

namespace trainbench {
namespace {

TEST(ReferenceResults, AreThePublishedOnes) {
  const ReferenceResults results = reference_results();
  EXPECT_EQ(results.model, "cifar10_cnn");
  EXPECT_EQ(results.batch, find_model(results.model).default_batch);
  EXPECT_EQ(results.width, find_model(results.model).axes()[0].value);
  ASSERT_EQ(results.ladder.size(), 7u);
  EXPECT_EQ(results.ladder.front().machine, "Google Colab TPU");
  EXPECT_EQ(results.ladder.front().seconds_per_epoch, 382);
  EXPECT_EQ(results.ladder.back().machine, "NVIDIA GeForce GTX 1080 Ti");
  EXPECT_EQ(results.ladder.back().seconds_per_epoch, 4);
  EXPECT_EQ(results.epochs, 10);
  EXPECT_EQ(results.first_epoch_loss, 1.334);
  EXPECT_EQ(results.last_epoch_loss, 0.447);
  EXPECT_EQ(results.validation_accuracy, 0.703);
  EXPECT_NE(results.note.find("TensorFlow 1"), std::string::npos);
}

TEST(ReferenceResults, PlacesAMachineOnTheLadder) {
  const ReferenceResults results = reference_results();
  EXPECT_EQ(results.slower_than(1000), 0u);
  EXPECT_EQ(results.slower_than(382), 0u);
  EXPECT_EQ(results.slower_than(100), 2u);
  EXPECT_EQ(results.slower_than(36), 2u);
  EXPECT_EQ(results.slower_than(35.9), 4u);
  EXPECT_EQ(results.slower_than(1), 7u);
}

TEST(ReferenceResults, SortsTheLadderAndNamesWhatIsMissing) {
  const ReferenceResults results = parse_reference_results(
      R"({"model": "m", "width": 1, "batch": 2, "note": "n",
          "ladder": [{"machine": "fast", "seconds_per_epoch": 1},
                     {"machine": "slow", "seconds_per_epoch": 2}],
          "log": {"epochs": 1, "first_epoch_loss": 1, "last_epoch_loss": 1,
                  "validation_accuracy": 1}})");
  EXPECT_EQ(results.ladder.front().machine, "slow");
  try {
    parse_reference_results("{}");
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("'log' not found"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace trainbench
