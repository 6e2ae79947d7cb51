#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/core/op_table.hpp"
#include "kernels/core/program.hpp"

namespace trainbench {

struct ModelSpec;

// Whether a backend can run here, found by asking its library and devices.
struct Probe {
  bool available = false;
  std::string reason;   // Why not, and what to do about it; empty when available.
  std::string version;  // "OpenBLAS 0.3.21"; for --list_backends.
  std::vector<std::pair<std::string, std::string>> context;  // For result files.
  // Precisions that the backend declares and this machine cannot compute in, each with why.
  std::vector<std::pair<Precision, std::string>> lacking = {};

  // Why a precision cannot be had; empty when it can.
  std::string lacks(Precision precision) const {
    for (const auto& [missing, why] : lacking) {
      if (missing == precision) return why;
    }
    return "";
  }
};

// What a device is opened for.
struct DeviceOptions {
  int threads = 1;  // Of a CPU backend.
  int index = 0;    // Of several devices.
};

// Another way to run a whole model than a backend's default, as it stands in names of rows.
struct ProgramVariant {
  std::vector<std::string>
      axes;  // "input:streamed", "launch:graph", "devices:2"; none: the default.
  Input input = Input::kResident;
  Launch launch = Launch::kDefault;
  int devices = 1;
};

// One way to compute. Everything but probe(), open_device() and compile() is a declaration: it
// touches no device and starts no library.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  virtual std::vector<Precision> precisions() const { return {Precision::kFp32}; }
  // The ops this backend creates, own and borrowed.
  virtual OpTable ops() const = 0;
  // False for the reference: it is the truth, not a contestant, and has no step or epoch rows.
  virtual bool contends() const { return true; }
  // True where compile() makes programs of its own, also of models whose ops are not in ops().
  virtual bool compiles() const { return false; }
  // The ways to run a whole model, each with rows of its own; the default is first.
  virtual std::vector<ProgramVariant> variants() const { return {ProgramVariant{}}; }
  // True where the library or the driver may hang or abort while probed.
  virtual bool probe_in_child() const { return false; }
  // Runs on the host's CPUs, with the suite's threads.
  virtual bool on_host() const { return true; }
  // Whoever runs this backend's work is pinned beside the pinned workers of its team. False where
  // the threads of a library compute: they would inherit the caller's one CPU.
  virtual bool pins_caller() const { return true; }
  // Keeps activations in forms of its own, so that data in canonical form needs reorders.
  virtual bool own_layouts() const { return false; }

  virtual Probe probe() const = 0;
  virtual std::unique_ptr<Device> open_device(const DeviceOptions& options) const = 0;
  virtual int device_count() const { return 1; }
  // A program of this backend's own where the whole is more than its parts; null asks for the
  // harness's layer-by-layer executor over ops().
  virtual std::unique_ptr<Program> compile(const ModelSpec&, const CompileOptions&, Device&) const {
    return nullptr;
  }
};

// The backends chosen at configure time, sorted by name; the reference is always among them.
std::vector<std::unique_ptr<Backend>> make_backends();

// Backends that configure left out, each as "name: reason".
std::vector<std::string> absent_backends();

}  // namespace trainbench
