#include "data/reference_results.hpp"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "embedded_reference_results.hpp"

namespace trainbench {

ReferenceResults parse_reference_results(std::string_view json) try {
  const auto document = nlohmann::json::parse(json);
  const auto& log = document.at("log");
  ReferenceResults results{.model = document.at("model"),
                           .width = document.at("width"),
                           .batch = document.at("batch"),
                           .note = document.at("note"),
                           .ladder = {},
                           .epochs = log.at("epochs"),
                           .first_epoch_loss = log.at("first_epoch_loss"),
                           .last_epoch_loss = log.at("last_epoch_loss"),
                           .validation_accuracy = log.at("validation_accuracy")};
  for (const auto& entry : document.at("ladder")) {
    results.ladder.push_back({entry.at("machine"), entry.at("seconds_per_epoch")});
  }
  std::ranges::stable_sort(results.ladder, std::greater<>(), &PublishedTime::seconds_per_epoch);
  return results;
} catch (const nlohmann::json::exception& error) {
  throw std::runtime_error(std::string("data/reference_results.json: ") + error.what());
}

ReferenceResults reference_results() { return parse_reference_results(kReferenceResultsJson); }

std::size_t ReferenceResults::slower_than(double seconds_per_epoch) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      ladder, [=](double published) { return published > seconds_per_epoch; },
      &PublishedTime::seconds_per_epoch));
}

}  // namespace trainbench
