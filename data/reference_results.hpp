#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trainbench {

// A published training time of one machine.
struct PublishedTime {
  std::string machine;
  double seconds_per_epoch = 0;
};

// What was published about one model: times of several machines, and the log of one training.
struct ReferenceResults {
  std::string model;
  std::int64_t width = 0, batch = 0;
  std::string note;                   // How the times were measured.
  std::vector<PublishedTime> ladder;  // Slowest first.

  std::int64_t epochs = 0;      // Of the log.
  double first_epoch_loss = 0;  // Mean training loss of its first epoch,
  double last_epoch_loss = 0;   // and of its last.
  double validation_accuracy = 0;

  // How many published machines are slower than this: where a machine stands on the ladder.
  std::size_t slower_than(double seconds_per_epoch) const;
};

// The content of data/reference_results.json, which is part of the program.
ReferenceResults reference_results();

// Throws std::runtime_error for text that is no such document.
ReferenceResults parse_reference_results(std::string_view json);

}  // namespace trainbench
