#pragma once

#include <any>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness/rows/hygiene.hpp"
#include "harness/run/options.hpp"
#include "kernels/core/backend.hpp"
#include "kernels/core/thread_team.hpp"
#include "kernels/machine/roofs.hpp"

namespace trainbench {

// What row bodies share in one process: options, opened devices, the measured roofs, what was
// checked already, and the one prepared row. Used by one thread.
class Session {
 public:
  // Throws std::runtime_error where OpenMP has bound the program to one CPU.
  Session(Options options, std::vector<std::unique_ptr<Backend>> backends);

  const Options& options() const { return options_; }
  const std::vector<std::unique_ptr<Backend>>& backends() const { return backends_; }
  // Throws std::invalid_argument, listing what there is.
  const Backend& backend(std::string_view name) const;
  const Backend& reference() const { return backend("reference"); }

  // The device of a backend, opened on first use with options().threads and kept. Its threads are
  // placed on all CPUs that the process may use, even while the caller is pinned.
  Device& device(const Backend& backend);

  // What this machine can reach at options().threads, measured on first use.
  const Roofs& roofs();

  // Runs `check` once per process and key; a failure is remembered and thrown again, unless it was
  // Interrupted.
  void once(const std::string& key, const std::function<void()>& check);

  // What the ops of a planned step were told of their operands' forms, by layer; planned once per
  // process and key.
  using Hints = std::map<std::string, std::vector<LayoutHint>>;
  const Hints& hints(const std::string& key, const std::function<Hints()>& plan) {
    const auto it = hints_.find(key);
    return it != hints_.end() ? it->second : hints_.emplace(key, plan()).first->second;
  }

  // The prepared state of a row: made on first entry, kept while Google Benchmark re-enters the
  // same row, and dropped before another row prepares, so that one is alive at a time.
  template <class T>
  T& prepared(const std::string& row, const std::function<std::unique_ptr<T>()>& make) {
    if (prepared_row_ != row) {
      drop_prepared();
      prepared_ = std::shared_ptr<T>(make());
      prepared_row_ = row;
    }
    return *std::any_cast<std::shared_ptr<T>&>(prepared_);
  }
  void drop_prepared() {
    prepared_.reset();
    prepared_row_.clear();
  }

  // Watches what disturbs the row that runs. A body restarts it where its clock starts, so that
  // checks and set-up do not count.
  HygieneWatch& hygiene() { return hygiene_; }

  // A fact for the context of result files, such as a data set's name and checksum; a later value
  // of a key replaces an earlier one. Bodies may add until the results are written.
  void add_context(const std::string& key, const std::string& value) { context_[key] = value; }
  // What an available backend says of itself, and those that it borrows from.
  void add_backend_context(const Backend& backend, const Probe& probe);
  const std::map<std::string, std::string>& context() const { return context_; }

 private:
  Options options_;
  std::vector<std::unique_ptr<Backend>> backends_;
  std::map<std::string, std::unique_ptr<Device>, std::less<>> devices_;
  std::unique_ptr<Roofs> roofs_;
  std::map<std::string, std::exception_ptr> checked_;  // Key to failure; null: passed.
  std::map<std::string, Hints> hints_;
  std::string prepared_row_;
  std::any prepared_;
  std::map<std::string, std::string> context_;
  HygieneWatch hygiene_;
  std::vector<int> cpus_ = allowed_cpus();  // Before anybody was pinned.
};

}  // namespace trainbench
