#include "harness/rows/filter.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainbench {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const char kConv[] = "op/conv2d/forward/native/fp32/batch:1";
const char kConvBorrower[] = "op/conv2d/forward/onednn/fp32/batch:10";
const char kEpoch[] = "epoch/cnn/train/native/fp32/batch:100";
const char kShortEpoch[] = "epoch/cnn/train/native/fp32/batch:100/steps:50";
const char kPeak[] = "machine/fma/peak/avx2/fp32/threads:1";

std::vector<Row> all_rows() {
  const auto row = [](const char* name, Tier tier, const char* backend) {
    return Row{.name = name, .tier = tier, .backend = backend};
  };
  return {row(kConv, Tier::kSmoke, "native"), row(kConvBorrower, Tier::kDefault, "onednn"),
          row(kEpoch, Tier::kFull, "native"), row(kShortEpoch, Tier::kDefault, "native"),
          row(kPeak, Tier::kSmoke, "")};
}

std::vector<std::string> selected(const Options& options) {
  std::vector<std::string> names;
  for (const Row& row : select_rows(all_rows(), options)) names.push_back(row.name);
  return names;
}

std::vector<std::string> filtered(const std::string& filter) {
  Options options;
  options.filter = filter;
  return selected(options);
}

TEST(Filter, WithoutOneTheTierDecides) {
  for (const char* filter : {"", ".", "all"}) {
    EXPECT_THAT(filtered(filter), ElementsAre(kConv, kConvBorrower, kShortEpoch, kPeak));
  }
  Options options;
  options.tier = Tier::kSmoke;
  EXPECT_THAT(selected(options), ElementsAre(kConv, kPeak));
  options.tier = Tier::kFull;
  EXPECT_EQ(selected(options).size(), all_rows().size());
}

TEST(Filter, ChoosesAmongAllTiersUnlessOneIsGiven) {
  EXPECT_THAT(filtered("^epoch"), ElementsAre(kEpoch, kShortEpoch));
  Options options;
  options.filter = "^epoch";
  options.tier_given = true;
  EXPECT_THAT(selected(options), ElementsAre(kShortEpoch));
}

TEST(Filter, SearchesWithAndWithoutTheSuffix) {
  EXPECT_THAT(filtered("batch:1$"), ElementsAre(kConv));
  EXPECT_THAT(filtered("batch:1/manual_time$"), ElementsAre(kConv));
  EXPECT_THAT(filtered("iterations:1/real_time"), ElementsAre(kEpoch, kShortEpoch));
}

TEST(Filter, AnchoredFullNamesSelectOneRow) {
  for (const Row& row : all_rows()) {
    const std::string suffix(name_suffix(row.name));
    EXPECT_THAT(filtered("^" + row.name + "$"), ElementsAre(row.name));
    EXPECT_THAT(filtered("^" + row.name + suffix + "$"), ElementsAre(row.name));
  }
}

TEST(Filter, LeadingMinusExcludesWithinTheTier) {
  EXPECT_THAT(filtered("-conv2d"), ElementsAre(kShortEpoch, kPeak));
  EXPECT_THAT(filtered("-manual_time$"), ElementsAre(kShortEpoch));
  EXPECT_THAT(filtered("-"), IsEmpty());
}

TEST(Filter, IsAPosixExtendedExpression) {
  EXPECT_THAT(filtered("conv2d/(forward|backward)/onednn"), ElementsAre(kConvBorrower));
  EXPECT_THAT(filtered("batch:[0-9]{2}/manual"), ElementsAre(kConvBorrower));
  EXPECT_THROW(NameFilter("conv("), std::invalid_argument);
  EXPECT_THROW(NameFilter("-["), std::invalid_argument);
}

TEST(Filter, BackendsKeepRowsThatNeedNone) {
  Options options;
  options.backends = {"onednn"};
  EXPECT_THAT(selected(options), ElementsAre(kConvBorrower, kPeak));
}

}  // namespace
}  // namespace trainbench
