#include "harness/rows/row.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <stdexcept>

#include "harness/run/text.hpp"

namespace trainbench {
namespace {

constexpr std::array<FamilyTiming, 9> kFamilies = {{
    {"op", Clock::kManual, benchmark::kMicrosecond},
    {"layer", Clock::kManual, benchmark::kMicrosecond},
    {"copy", Clock::kManual, benchmark::kMicrosecond},
    {"launch", Clock::kManual, benchmark::kMicrosecond},
    {"machine", Clock::kManual, benchmark::kMillisecond},
    {"step", Clock::kReal, benchmark::kMicrosecond},
    {"epoch", Clock::kOnce, benchmark::kSecond},
    {"ledger", Clock::kOnce, benchmark::kSecond},
    {"knee", Clock::kOnce, benchmark::kSecond},
}};

constexpr std::size_t kFixedParts = 5;
constexpr std::string_view kWord = "abcdefghijklmnopqrstuvwxyz0123456789_";
constexpr std::string_view kDigits = "0123456789";

bool consists_of(std::string_view text, std::string_view allowed) {
  return !text.empty() && text.find_first_not_of(allowed) == std::string_view::npos;
}

// Values of the axes that tell variants apart; empty: any word.
const std::vector<std::string_view>* variant_values(std::string_view axis) {
  struct Variant {
    std::string_view axis;
    std::vector<std::string_view> values;
  };
  static const std::vector<Variant> variants = {
      {"input", {"resident", "streamed", "prefetched"}},
      {"launch", {"stream", "graph", "step"}},
      {"cache", {"cold"}},
      {"algo", {}},
      {"layout", {}},
      {"devices", {}},
      {"steps", {}},
  };
  const auto it = std::ranges::find(variants, axis, &Variant::axis);
  return it == variants.end() ? nullptr : &it->values;
}

void check_variant(std::string_view axis, std::string_view value,
                   const std::vector<std::string_view>& allowed) {
  const bool counts = axis == "devices" || axis == "steps";
  if (!consists_of(value, counts ? kDigits : kWord) ||
      (!allowed.empty() && std::ranges::find(allowed, value) == allowed.end())) {
    throw std::logic_error("'" + std::string(value) + "' is no value of the axis " +
                           std::string(axis));
  }
}

// A problem axis counts something. What depends on the machine, as a cache level does, is no part
// of a name; the number of threads is context, but where it is what is studied.
void check_problem_axis(std::string_view family, std::string_view axis, std::string_view value) {
  if (!consists_of(axis, kWord) || !consists_of(value, kDigits)) {
    throw std::logic_error("the axis " + std::string(axis) + ":" + std::string(value) +
                           " is no whole number and no known variant");
  }
  if (axis == "threads" && family != "knee" && family != "machine") {
    throw std::logic_error("only knee and machine rows have an axis of threads");
  }
}

void check_parts(const std::vector<std::string>& parts) {
  if (parts.size() < kFixedParts) throw std::logic_error("it has fewer than five parts");
  family_timing(parts[0]);
  for (std::size_t i = 1; i < kFixedParts; ++i) {
    // A layer's subject is its model's name, a point, and its own.
    if (!consists_of(parts[i], std::string(kWord) + (i == 1 ? "." : ""))) {
      throw std::logic_error("the part '" + parts[i] + "' is no lower-case word");
    }
  }
  std::set<std::string> seen;
  bool in_variants = false;
  for (std::size_t i = kFixedParts; i < parts.size(); ++i) {
    const std::size_t colon = parts[i].find(':');
    if (colon == std::string::npos) throw std::logic_error("'" + parts[i] + "' is no axis:value");
    const std::string axis = parts[i].substr(0, colon), value = parts[i].substr(colon + 1);
    if (!seen.insert(axis).second) throw std::logic_error("the axis " + axis + " comes twice");
    if (const auto* allowed = variant_values(axis)) {
      in_variants = true;
      check_variant(axis, value, *allowed);
    } else {
      check_problem_axis(parts[0], axis, value);
      if (in_variants) throw std::logic_error("the axis " + axis + " comes after a variant's");
    }
  }
}

}  // namespace

std::string row_name(const std::string& family, const std::string& subject, const std::string& work,
                     const std::string& backend, const std::string& precision,
                     const std::vector<std::string>& axes) {
  std::string name = family + '/' + subject + '/' + work + '/' + backend + '/' + precision;
  for (const std::string& axis : axes) name += '/' + axis;
  return name;
}

const FamilyTiming& family_timing(std::string_view name) {
  const std::string_view family = name.substr(0, name.find('/'));
  const auto* it = std::ranges::find(kFamilies, family, &FamilyTiming::family);
  if (it == kFamilies.end()) {
    throw std::logic_error("there is no family of rows '" + std::string(family) + "'");
  }
  return *it;
}

std::string_view name_suffix(std::string_view name) {
  switch (family_timing(name).clock) {
    case Clock::kManual:
      return "/manual_time";
    case Clock::kReal:
      return "/real_time";
    case Clock::kOnce:
      return "/iterations:1/real_time";
  }
  return "";
}

void check_name(const std::string& name) {
  try {
    check_parts(split(name, '/'));
  } catch (const std::logic_error& error) {
    throw std::logic_error("row name '" + name + "': " + error.what());
  }
}

void check_names(const std::vector<Row>& rows) {
  std::set<std::string_view> seen;
  for (const Row& row : rows) {
    check_name(row.name);
    if (!seen.insert(row.name).second) {
      throw std::logic_error("row name '" + row.name + "' comes twice");
    }
  }
}

}  // namespace trainbench
