#include "harness/rows/filter.hpp"

#include <regex.h>

#include <algorithm>
#include <stdexcept>

namespace trainbench {

NameFilter::NameFilter(const std::string& filter) {
  if (filter.empty() || filter == "." || filter == "all") return;
  negated_ = filter.front() == '-';
  const std::string expression = negated_ ? filter.substr(1) : filter;
  auto compiled = std::make_unique<regex_t>();
  const int error = regcomp(compiled.get(), expression.c_str(), REG_EXTENDED | REG_NOSUB);
  if (error != 0) {
    char message[256];
    regerror(error, compiled.get(), message, sizeof message);
    throw std::invalid_argument("--benchmark_filter=" + filter +
                                " is no POSIX extended regular expression: " + message);
  }
  expression_.reset(compiled.release(), [](regex_t* owned) {
    regfree(owned);
    delete owned;
  });
}

bool NameFilter::matches(std::string_view name) const {
  if (!given()) return true;
  const auto found = [this](const std::string& text) {
    return regexec(expression_.get(), text.c_str(), 0, nullptr, 0) == 0;
  };
  const std::string bare(name);
  return (found(bare) || found(bare + std::string(name_suffix(name)))) != negated_;
}

bool chooses_among_all_tiers(const Options& options) {
  const NameFilter filter(options.filter);
  return filter.given() && !filter.negated() && !options.tier_given;
}

std::vector<Row> select_rows(std::vector<Row> rows, const Options& options) {
  const NameFilter filter(options.filter);
  const bool all_tiers = chooses_among_all_tiers(options);
  std::erase_if(rows, [&](const Row& row) {
    const bool other_backend =
        !options.backends.empty() && !row.backend.empty() &&
        std::ranges::find(options.backends, row.backend) == options.backends.end();
    return other_backend || (!all_tiers && row.tier > options.tier) || !filter.matches(row.name);
  });
  return rows;
}

}  // namespace trainbench
