#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness/rows/row.hpp"
#include "harness/run/options.hpp"

struct re_pattern_buffer;

namespace trainbench {

// A --benchmark_filter: a POSIX extended regular expression that is searched in a row's name, with
// and without the suffix that Google Benchmark appends; a leading '-' turns the choice around.
class NameFilter {
 public:
  // Throws std::invalid_argument for a broken expression.
  explicit NameFilter(const std::string& filter);

  // "", "." and "all" name nothing: the tier alone decides.
  bool given() const { return expression_ != nullptr; }
  bool negated() const { return negated_; }
  bool matches(std::string_view name) const;

 private:
  std::shared_ptr<re_pattern_buffer> expression_;
  bool negated_ = false;
};

// A filter that names rows chooses among all tiers unless --tier is given too; one that only
// excludes leaves the tier as it is.
bool chooses_among_all_tiers(const Options& options);

// The rows that the options ask for, in the order given.
std::vector<Row> select_rows(std::vector<Row> rows, const Options& options);

}  // namespace trainbench
