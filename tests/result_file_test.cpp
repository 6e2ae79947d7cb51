#include "harness/report/result_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

namespace trainbench {
namespace {

using testing::HasSubstr;
using testing::Not;

BenchmarkRun make_run(const std::string& name) {
  BenchmarkRun run;
  run.run_name.function_name = name;
  run.run_name.time_type = "manual_time";
  run.family_index = 0;
  run.per_family_instance_index = 0;
  run.repetitions = 1;
  run.repetition_index = 0;
  run.iterations = 10;
  run.time_unit = benchmark::kMicrosecond;
  run.real_accumulated_time = 1e-3;
  run.cpu_accumulated_time = 2e-3;
  return run;
}

BenchmarkRun make_aggregate(double cv) {
  BenchmarkRun run = make_run("op/a");
  run.run_type = BenchmarkRun::RT_Aggregate;
  run.aggregate_name = "cv";
  run.aggregate_unit = benchmark::kPercentage;
  run.real_accumulated_time = run.cpu_accumulated_time = cv;
  return run;
}

nlohmann::json parsed(const ResultDocument& document) {
  return nlohmann::json::parse(document.json());
}

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// A folder that goes away with the test.
class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "results_XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

TEST(ResultDocument, HoldsTimesInTheirUnit) {
  ResultDocument document;
  document.set_context({{"host_name", "here"}});
  document.add(make_run("op/a"));
  const auto json = parsed(document);
  EXPECT_EQ(json["context"]["host_name"], "here");
  const auto& row = json["benchmarks"][0];
  EXPECT_EQ(row["name"], "op/a/manual_time");
  EXPECT_DOUBLE_EQ(row["real_time"], 100);  // 1 ms over 10 iterations, in us.
  EXPECT_DOUBLE_EQ(row["cpu_time"], 200);
  EXPECT_EQ(row["time_unit"], "us");
  EXPECT_FALSE(row.contains("error_occurred"));
}

TEST(ResultDocument, IsValidWithoutRows) {
  ResultDocument document;
  document.set_context(nlohmann::ordered_json::object());
  EXPECT_EQ(parsed(document)["benchmarks"].size(), 0u);
}

TEST(ResultDocument, EscapesAndReplacesWhatIsNoUtf8) {
  BenchmarkRun run = make_run("op/a");
  run.report_label =
      "Gr\xc3\xb6\xc3\x9f"
      "e \"x\"\n\xff";
  ResultDocument document;
  document.add(run);
  EXPECT_EQ(parsed(document)["benchmarks"][0]["label"],
            "Gr\xc3\xb6\xc3\x9f"
            "e \"x\"\n\xef\xbf\xbd");
  EXPECT_THAT(document.csv(), HasSubstr("e \"\"x\"\"\n\xef\xbf\xbd\""));
}

TEST(ResultDocument, CsvHasTheCountersOfAllRows) {
  BenchmarkRun first = make_run("op/a"), second = make_run("op/b");
  first.counters["alpha"] = 1;
  second.counters["beta"] = 2;
  second.counters["bytes_per_second"] = 3;
  second.report_label = "a \"b\", c";
  ResultDocument document;
  document.add(first);
  document.add(second);
  EXPECT_EQ(document.csv(),
            "name,iterations,real_time,cpu_time,time_unit,bytes_per_second,items_per_second,label,"
            "error_occurred,error_message,\"alpha\",\"beta\"\n"
            "\"op/a/manual_time\",10,100.0,200.0,\"us\",,,,,,1.0,\n"
            "\"op/b/manual_time\",10,100.0,200.0,\"us\",3.0,,\"a \"\"b\"\", c\",,,,2.0\n");
}

TEST(NonFinite, CountersAreLeftOutAndNamed) {
  BenchmarkRun run = make_run("op/a");
  run.counters["loss"] = std::nan("");
  run.counters["rate"] = std::numeric_limits<double>::infinity();
  run.counters["good"] = 1;
  const auto finite = without_non_finite(run);
  ASSERT_TRUE(finite);
  EXPECT_EQ(finite->counters.size(), 1u);
  EXPECT_FALSE(finite->error_occurred);
  EXPECT_EQ(finite->report_label, "warning=not finite, left out: loss,rate");
}

TEST(NonFinite, TimesAreErrors) {
  BenchmarkRun run = make_run("op/a");
  run.real_accumulated_time = std::nan("");
  const auto finite = without_non_finite(run);
  ASSERT_TRUE(finite);
  EXPECT_TRUE(finite->error_occurred);
  EXPECT_THAT(finite->error_message, HasSubstr("not a finite number"));
  ResultDocument document;
  document.add(*finite);
  EXPECT_THAT(document.json(), Not(HasSubstr("nan")));
  EXPECT_EQ(parsed(document)["benchmarks"][0]["real_time"], 0);
}

TEST(NonFinite, AggregatesWithoutAValueAreLeftOut) {
  EXPECT_FALSE(without_non_finite(make_aggregate(std::nan(""))));
  const auto finite = without_non_finite(make_aggregate(0.25));
  ASSERT_TRUE(finite);
  ResultDocument document;
  document.add(*finite);
  const auto row = parsed(document)["benchmarks"][0];
  EXPECT_EQ(row["name"], "op/a/manual_time_cv");
  EXPECT_EQ(row["aggregate_unit"], "percentage");
  EXPECT_DOUBLE_EQ(row["real_time"], 0.25);
}

TEST(ResultFile, GrowsBesideTheOldResult) {
  const Folder folder;
  const auto path = folder / "r.json";
  std::ofstream(path) << "old";
  const ResultFile file(path.string());
  EXPECT_FALSE(std::filesystem::exists(file.partial()));
  file.save("new");
  EXPECT_EQ(contents(path), "old");
  EXPECT_EQ(contents(file.partial()), "new");
  file.finish("newer");
  EXPECT_EQ(contents(path), "newer");
  EXPECT_FALSE(std::filesystem::exists(file.partial()));
}

TEST(ResultFile, KeepsLinks) {
  const Folder folder;
  std::ofstream(folder / "real.json") << "old";
  std::filesystem::create_symlink(folder / "real.json", folder / "link.json");
  const ResultFile file((folder / "link.json").string());
  file.finish("new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link.json"));
  EXPECT_EQ(contents(folder / "real.json"), "new");
}

TEST(ResultFile, RefusesWhatCannotBeWritten) {
  const Folder folder;
  EXPECT_THROW(ResultFile((folder / "none/r.json").string()), std::runtime_error);
  EXPECT_THROW(ResultFile((folder / ".").string()), std::runtime_error);
  EXPECT_FALSE(std::filesystem::exists(folder / "none"));
}

TEST(ResultFile, FullDevicesAreErrors) {
  const ResultFile file("/dev/full");
  EXPECT_TRUE(file.direct());
  EXPECT_NO_THROW(file.save("text"));
  EXPECT_THROW(file.finish("text"), std::runtime_error);
}

}  // namespace
}  // namespace trainbench
