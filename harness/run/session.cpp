#include "harness/run/session.hpp"

#include <stdexcept>

#include "harness/run/probe.hpp"
#include "harness/run/text.hpp"
#include "kernels/core/openmp.hpp"
#include "kernels/core/stop.hpp"

namespace trainbench {
Session::Session(Options options, std::vector<std::unique_ptr<Backend>> backends)
    : options_(std::move(options)), backends_(std::move(backends)) {
  require_unbound_threads();
}

const Backend& Session::backend(std::string_view name) const {
  std::vector<std::string> names;
  for (const auto& backend : backends_) {
    if (backend->name() == name) return *backend;
    names.emplace_back(backend->name());
  }
  throw std::invalid_argument("there is no backend '" + std::string(name) +
                              "' in this build; it has " + join(names, ", "));
}

Device& Session::device(const Backend& backend) {
  const auto it = devices_.find(backend.name());
  if (it != devices_.end()) return *it->second;
  const RunOn all_cpus(cpus_);
  DeviceOptions device_options;
  device_options.threads = options_.threads;
  return *devices_.emplace(backend.name(), backend.open_device(device_options)).first->second;
}

const Roofs& Session::roofs() {
  if (roofs_ == nullptr) {
    roofs_ = std::make_unique<Roofs>(measure_roofs(as_host(device(reference()))));
  }
  return *roofs_;
}

void Session::once(const std::string& key, const std::function<void()>& check) {
  const auto known = checked_.find(key);
  if (known != checked_.end()) {
    if (known->second) std::rethrow_exception(known->second);
    return;
  }
  try {
    check();
    checked_[key] = nullptr;
  } catch (const Interrupted&) {
    throw;
  } catch (...) {
    checked_[key] = std::current_exception();
    throw;
  }
}

void Session::add_backend_context(const Backend& backend, const Probe& probe) {
  add_context(std::string(backend.name()) + "_version", probe.version);
  for (const auto& [key, value] : probe.context) add_context(key, value);
  for (const std::string& borrowed : backend.ops().borrowed_ops()) {
    const Backend& owner = this->backend(borrowed.substr(0, borrowed.find(':')));
    const std::string key = std::string(owner.name()) + "_version";
    if (!context_.contains(key))
      add_backend_context(owner, probe_backend(owner, options_.probe_seconds));
  }
}

}  // namespace trainbench
