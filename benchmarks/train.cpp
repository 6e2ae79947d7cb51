// The published scripts' run: trains a model for some epochs, tells its losses and accuracies as it
// goes, tests it, and places this machine on the published ladder; or compares backends.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>

#include "data/model_file.hpp"
#include "data/models.hpp"
#include "data/reference_results.hpp"
#include "harness/check/row_checks.hpp"
#include "harness/report/context.hpp"
#include "harness/report/result_file.hpp"
#include "harness/run/probe.hpp"
#include "harness/run/session.hpp"
#include "harness/run/signals.hpp"
#include "harness/run/text.hpp"
#include "harness/train/trainer.hpp"
#include "kernels/core/stop.hpp"
#include "kernels/core/thread_team.hpp"

namespace trainbench {
namespace {

constexpr int kShownPredictions = 20;
constexpr int kFailed = 1, kDidNotFit = 2, kInterrupted = 130;

struct TrainFlags {
  std::string model = "cifar10_cnn";
  std::vector<std::string> backends;
  TrainerOptions trainer;
  std::optional<std::int64_t> batch, width, depth;
  std::string data_dir, json, precision = "fp32";
  std::string load, save;  // Files with the state to start from, and for the one reached.
  std::string probe;       // Hidden: answer a parent's probe of this backend.
  double probe_seconds = 30;
  int threads = default_threads();

  Options options() const {
    Options options;
    options.threads = threads;
    options.data_dir = data_dir;
    return options;
  }
  ModelPoint point() const {
    const ModelEntry& entry = find_model(model);
    ModelAxes changes;
    if (depth) changes.push_back({"depth", *depth});
    if (width) changes.push_back({"width", *width});
    return {&entry, entry.axes(changes), trainer.batch};
  }
};

// One backend's run, for the comparison and the JSON file.
struct Run {
  std::string backend, version;
  TrainingResult result;
  double peak_flops = 0;  // FMA peak of the host, per second; 0 for another device.

  bool trained() const { return !result.epochs.empty(); }
  double first_seconds() const { return result.epochs.front().seconds; }
  // Mean of the epochs after the first, which may still pay for set-up; of that one if it is alone.
  double steady_seconds() const {
    if (result.epochs.size() == 1) return first_seconds();
    double sum = 0;
    for (const EpochResult& epoch : result.epochs) sum += epoch.seconds;
    return (sum - first_seconds()) / static_cast<double>(result.epochs.size() - 1);
  }
};

std::string data_dir_from_environment() {
  const char* value = std::getenv("TRAINBENCH_DATA_DIR");
  return value == nullptr ? "" : value;
}

// Prints like std::printf, as std::string: what goes to the screen is built here.
template <class... Arguments>
std::string format(const char* pattern, Arguments... arguments) {
  const int length = std::snprintf(nullptr, 0, pattern, arguments...);
  std::string text(static_cast<std::size_t>(length) + 1, '\0');
  std::snprintf(text.data(), text.size(), pattern, arguments...);
  text.pop_back();
  return text;
}

void print_summary(const ModelSpec& spec) {
  const std::string rule(65, '_'), double_rule(65, '=');
  std::cout << "Model: " << spec.name << "\n"
            << rule << "\n"
            << format("%-29s%-26s%s", "Layer (type)", "Output Shape", "Param #") << "\n"
            << double_rule << "\n";
  const std::vector<Shape> shapes = spec.activations();
  const std::vector<ModelParameter> list = spec.parameter_list();
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    std::int64_t parameters = 0;
    for (const ModelParameter& parameter : list) {
      if (parameter.layer == i) parameters += parameter.shape.elements();
    }
    std::string shape = "(None";
    for (std::size_t axis = 0; axis < shapes[i + 1].rank(); ++axis) {
      shape += ", " + std::to_string(shapes[i + 1][axis]);
    }
    std::cout << format("%-29s%-26s%lld",
                        (spec.layers[i].name + " (" + spec.layers[i].type + ")").c_str(),
                        (shape + ")").c_str(), static_cast<long long>(parameters))
              << "\n";
  }
  std::cout << double_rule << "\nTotal params: " << spec.parameters() << "\n" << rule << "\n";
}

// A bar on a terminal that redraws itself; nothing where output is a file or a pipe.
class ProgressBar {
 public:
  ProgressBar(std::int64_t samples, std::int64_t batch)
      : samples_(samples), batch_(batch), terminal_(isatty(STDOUT_FILENO) == 1) {}

  void show(std::int64_t done, std::int64_t all, const LossAccuracy& so_far) const {
    if (!terminal_) return;
    constexpr std::int64_t kWidth = 30;
    const std::int64_t filled = kWidth * done / all;
    std::string bar(static_cast<std::size_t>(kWidth), '.');
    std::fill_n(bar.begin(), filled, '=');
    if (filled < kWidth) bar[static_cast<std::size_t>(filled)] = '>';
    std::cout << format("\r%lld/%lld [%s] - loss: %.4f - acc: %.4f",
                        static_cast<long long>(std::min(done * batch_, samples_)),
                        static_cast<long long>(samples_), bar.c_str(), so_far.loss, so_far.accuracy)
              << std::flush;
  }
  void clear() const {
    if (terminal_) std::cout << "\r\033[K";
  }

 private:
  std::int64_t samples_, batch_;
  bool terminal_;
};

TrainerEvents screen_events(const TrainFlags& flags, std::int64_t samples) {
  const auto bar = std::make_shared<ProgressBar>(samples, flags.trainer.batch);
  const bool validates = flags.trainer.validate > 0;
  const std::int64_t epochs = flags.trainer.epochs;
  return {.set_up = nullptr,
          .progress = [bar](std::int64_t done, std::int64_t all,
                            const LossAccuracy& so_far) { bar->show(done, all, so_far); },
          .epoch_done =
              [bar, samples, validates, epochs](std::int64_t epoch, const EpochResult& e) {
                bar->clear();
                std::cout << format(
                    "Epoch %lld/%lld\n%lld/%lld - %.2fs - %.0fus/sample - loss: %.4f - acc: %.4f",
                    static_cast<long long>(epoch + 1), static_cast<long long>(epochs),
                    static_cast<long long>(samples), static_cast<long long>(samples), e.seconds,
                    e.us_per_sample, e.training.loss, e.training.accuracy);
                if (validates) {
                  std::cout << format(" - val_loss: %.4f - val_acc: %.4f", e.validation.loss,
                                      e.validation.accuracy);
                }
                std::cout << "\n" << std::flush;
                if (e.not_learning) {
                  std::cout << "warning: not learning: the loss is still that of guessing\n";
                }
              }};
}

void print_test(const TrainingResult& result, const Dataset& test) {
  std::cout << format("Test: %lld images in %.2f s - loss: %.4f - acc: %.4f\n",
                      static_cast<long long>(test.count()), result.evaluate_seconds,
                      result.test.loss, result.test.accuracy);
  const auto shown = std::min<std::size_t>(kShownPredictions, result.predicted.size());
  std::string predicted, labels;
  for (std::size_t i = 0; i < shown; ++i) {
    predicted += " " + std::to_string(result.predicted[i]);
    labels += " " + std::to_string(static_cast<int>(test.labels[i]));
  }
  std::cout << "First " << shown << " test images\n  predicted:" << predicted
            << "\n  labels:   " << labels << "\n";
  const auto one_class = [&](std::int32_t c) { return c == result.predicted.front(); };
  if (result.predicted.size() > 1 && std::ranges::all_of(result.predicted, one_class)) {
    std::cout << "warning: not learning: all test images are predicted as one class\n";
  }
  std::cout << format("Set-up %.2f s, total %.2f s\n", result.setup_seconds, result.total_seconds);
}

void print_comparison(const std::vector<Run>& runs) {
  std::cout << "\n"
            << format("%-12s%10s%11s%10s%12s%10s%10s", "backend", "set-up s", "1st epoch",
                      "s/epoch", "evaluate s", "total s", "test acc")
            << "\n";
  for (const Run& run : runs) {
    std::cout << format("%-12s%10.2f%11.3f%10.3f%12.3f%10.2f%10.4f", run.backend.c_str(),
                        run.result.setup_seconds, run.first_seconds(), run.steady_seconds(),
                        run.result.evaluate_seconds, run.result.total_seconds,
                        run.result.test.accuracy)
              << "\n";
  }
  for (std::size_t i = 1; i < runs.size(); ++i) {
    std::cout << format("%s takes %.2f times as long per epoch as %s\n", runs[i].backend.c_str(),
                        runs[i].steady_seconds() / runs[0].steady_seconds(),
                        runs[0].backend.c_str());
  }
}

// The published machines with this one among them; nothing for another model, width or batch.
void print_ladder(const TrainFlags& flags, const std::vector<Run>& runs) {
  const ReferenceResults published = reference_results();
  const ModelPoint point = flags.point();
  const bool same = point.entry->name == published.model && point.batch == published.batch &&
                    point.axes == ModelAxes{{"width", published.width}};
  if (!same) return;
  struct Rung {
    double seconds;
    std::string machine;
  };
  std::vector<Rung> rungs;
  for (const PublishedTime& time : published.ladder) {
    rungs.push_back({time.seconds_per_epoch, time.machine});
  }
  for (const Run& run : runs) {
    rungs.push_back({run.steady_seconds(), "this machine, " + run.backend + "  <--"});
  }
  std::ranges::stable_sort(rungs, {}, &Rung::seconds);
  std::cout << "\nPublished ladder, seconds per epoch. " << published.note << "\n";
  for (const Rung& rung : rungs)
    std::cout << format("%10.1f  %s\n", rung.seconds, rung.machine.c_str());
}

nlohmann::ordered_json to_json(const LossAccuracy& value) {
  return {{"loss", value.loss}, {"accuracy", value.accuracy}};
}

nlohmann::ordered_json to_json(const Run& run, std::int64_t samples, const TrainFlags& flags) {
  nlohmann::ordered_json epochs = nlohmann::ordered_json::array();
  for (const EpochResult& epoch : run.result.epochs) {
    nlohmann::ordered_json entry = {{"seconds", epoch.seconds},
                                    {"us_per_sample", epoch.us_per_sample},
                                    {"training", to_json(epoch.training)}};
    if (flags.trainer.validate > 0) entry["validation"] = to_json(epoch.validation);
    epochs.push_back(entry);
  }
  nlohmann::ordered_json document = {{"backend", run.backend},
                                     {"version", run.version},
                                     {"label", run.result.label},
                                     {"setup_seconds", run.result.setup_seconds},
                                     {"epochs", epochs},
                                     {"test", to_json(run.result.test)},
                                     {"evaluate_seconds", run.result.evaluate_seconds},
                                     {"total_seconds", run.result.total_seconds},
                                     {"predicted", run.result.predicted}};
  if (!run.trained()) return document;
  document["first_epoch_seconds"] = run.first_seconds();
  document["steady_epoch_seconds"] = run.steady_seconds();
  if (run.peak_flops > 0) {
    const double steps = static_cast<double>(samples) / static_cast<double>(flags.trainer.batch);
    const double flops = run.result.executed_flops * steps / run.steady_seconds();
    document["percent_of_peak"] = 100 * flops / run.peak_flops;
  }
  return document;
}

// A run that did not end well stays in FILE.partial.
void write_json(const ResultFile& file, const Session& session, const TrainFlags& flags,
                const TrainTest& data, const std::vector<Run>& runs, bool complete) {
  std::map<std::string, std::string> context = machine_context(flags.options());
  context.insert(session.context().begin(), session.context().end());
  const ModelSpec spec = flags.point().spec();
  nlohmann::ordered_json document = {{"context", context},
                                     {"model", spec.name},
                                     {"parameters", spec.parameters()},
                                     {"batch", flags.trainer.batch},
                                     {"precision", std::string(to_string(flags.trainer.precision))},
                                     {"seed", flags.trainer.seed},
                                     {"complete", complete},
                                     {"data",
                                      {{"name", data.train.name},
                                       {"checksum", data.train.checksum},
                                       {"train", data.train.count()},
                                       {"test", data.test.count()}}},
                                     {"axes", nlohmann::ordered_json::object()},
                                     {"runs", nlohmann::ordered_json::array()}};
  for (const ModelAxis& axis : flags.point().axes) document["axes"][axis.name] = axis.value;
  for (const Run& run : runs) document["runs"].push_back(to_json(run, data.train.count(), flags));
  const std::string text =
      document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  file.write(text, complete);
}

void print_data(const TrainTest& data, std::int64_t validate) {
  const auto shape = [](const Dataset& set) {
    const Shape& s = set.sample;
    return format("(%lld, %lld, %lld, %lld)", static_cast<long long>(set.count()),
                  static_cast<long long>(s[0]), static_cast<long long>(s[1]),
                  static_cast<long long>(s[2]));
  };
  std::cout << "Data: " << data.train.name << " from " << data.train.source << "\n"
            << "  x_train " << shape(data.train) << "  x_test " << shape(data.test) << "\n";
  if (validate <= 0) return;
  const std::int64_t classes = classes_in_first(data.test.view(), validate);
  if (classes < data.test.classes) {
    std::cout << "warning: the first " << validate << " test images hold only " << classes << " of "
              << data.test.classes << " classes; validation says little about the others\n";
  }
}

void write_state(const ResultFile& file, const ModelSpec& spec, const ModelState& state,
                 bool complete) {
  if (state.parameters.empty()) return;  // Nothing was reached.
  file.write(tensor_file_bytes(state_to_tensors(spec, state)), complete);
}

ModelState load_state(const std::string& path, const ModelSpec& spec) {
  const TensorFile file = read_tensor_file(path);
  try {
    return state_from_tensors(spec, file);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(path + ": " + error.what() +
                             "; --model, --width and --depth say which model it is for");
  }
}

// What can be known before the first backend trains.
void check_flags(const TrainFlags& flags, const Session& session, const TrainTest& data) {
  const Precision precision = flags.trainer.precision;
  for (const std::string& name : flags.backends) {
    const Backend& backend = session.backend(name);
    require(backend.contends(),
            name + " is the truth that others are checked against, not made to train");
    const std::vector<Precision> declared = backend.precisions();
    require(std::ranges::find(declared, precision) != declared.end(),
            name + " does not compute in " + std::string(to_string(precision)));
  }
  require(flags.trainer.batch <= data.train.count(),
          "a batch of " + std::to_string(flags.trainer.batch) + " is more than the " +
              std::to_string(data.train.count()) + " pictures of " + data.train.name +
              "; try a smaller --batch");
  require(flags.save.empty() || flags.backends.size() == 1,
          "--save keeps the state of one backend; name one --backend");
  require(flags.trainer.epochs > 0 || flags.trainer.initial,
          "--epochs=0 only evaluates; --load says what");
  if (flags.threads > default_threads()) {
    std::cerr << "warning: --threads=" << flags.threads << " on " << default_threads()
              << " CPUs that this process may use\n";
  }
}

void train_backend(const TrainFlags& flags, const ModelSpec& spec, const TrainTest& data,
                   Session& session, const std::string& name, Run& run,
                   const std::function<void()>& save) {
  const Backend& backend = session.backend(name);
  const Probe probe = probe_backend(backend, flags.probe_seconds);
  if (!probe.available) throw std::runtime_error(name + " cannot run here: " + probe.reason);
  const Precision precision = flags.trainer.precision;
  if (const std::string why = probe.lacks(precision); !why.empty()) {
    throw std::runtime_error(name + " cannot compute in " + std::string(to_string(precision)) +
                             " here: " + why);
  }
  run.backend = name;
  run.version = probe.version;
  session.add_backend_context(backend, probe);
  std::cout << "\nTraining on " << name << " (" << probe.version << "), batch "
            << flags.trainer.batch << ", " << flags.threads << " threads\n";
  if (backend.on_host()) run.peak_flops = session.roofs().flops(flags.trainer.precision);
  const PinnedCaller pinned(backend.pins_caller());
  TrainerEvents events = screen_events(flags, data.train.count());
  events.set_up = [&] {
    check_model(session, flags.point(), data.train.count(), backend, flags.trainer.precision);
  };
  events.epoch_done = [&save, show = events.epoch_done](std::int64_t epoch, const EpochResult& e) {
    show(epoch, e);
    save();
  };
  train_model(backend, session.device(backend), spec, data, flags.trainer, events, run.result);
  print_test(run.result, data.test);
}

// The exit status: 0 all went well; 1 an error; 2 out of memory; 130 stopped by the user. What was
// reached is kept.
int train(TrainFlags flags) {
  std::optional<ResultFile> file;  // That it cannot be written should be known before training.
  if (!flags.json.empty()) file.emplace(flags.json);
  std::optional<ResultFile> state_file;
  if (!flags.save.empty()) state_file.emplace(flags.save);
  const ModelSpec spec = flags.point().spec();
  if (!flags.load.empty()) flags.trainer.initial = load_state(flags.load, spec);
  const TrainTest data = load_for_model(spec, flags.data_dir);
  print_data(data, flags.trainer.validate);
  print_summary(spec);
  Session session(flags.options(), make_backends());
  check_flags(flags, session, data);
  std::vector<Run> runs;
  // What was reached so far is in FILE.partial after each epoch.
  const auto save = [&](bool complete) {
    if (file) write_json(*file, session, flags, data, runs, complete);
    if (state_file) write_state(*state_file, spec, runs.back().result.state, complete);
  };
  std::string failure;
  int status = 0;
  for (const std::string& name : flags.backends) {
    runs.emplace_back();
    try {
      train_backend(flags, spec, data, session, name, runs.back(), [&] { save(false); });
    } catch (const Interrupted&) {
      status = kInterrupted;
      failure = "stopped after " + std::to_string(runs.back().result.epochs.size()) + " epochs";
    } catch (const OutOfMemory& error) {
      status = kDidNotFit;
      failure = name + ": " + error.what();
    } catch (const std::bad_alloc&) {
      status = kDidNotFit;
      failure = name + ": out of host memory; try a smaller batch or width";
    } catch (const std::exception& error) {
      status = kFailed;
      failure = name + ": " + error.what();
    }
    if (status != 0) break;
  }
  if (status == 0 && runs.front().trained()) {
    if (runs.size() > 1) print_comparison(runs);
    print_ladder(flags, runs);
  }
  save(status == 0);
  if (!std::cout.flush() && status == 0) {
    status = kFailed;
    failure = "cannot write standard output";
  }
  if (status != 0) std::cerr << "\ntrain: " << failure << "\n";
  return status;
}

std::string model_names() {
  std::vector<std::string> names;
  for (const ModelEntry& entry : models()) names.push_back(entry.name);
  return join(names, ", ");
}

void add_flags(CLI::App& app, TrainFlags& flags, std::string& backends) {
  app.add_option("--model", flags.model, "Model: " + model_names())->capture_default_str();
  app.add_option(
         "--backend", backends,
         "Backend, or several, with commas between, to compare (see bench_models --list_backends)")
      ->default_val("openblas");
  app.add_option("--precision", flags.precision, "Arithmetic: fp32, tf32 or bf16")
      ->check(CLI::IsMember({"fp32", "tf32", "bf16"}))
      ->capture_default_str();
  app.add_option("--epochs", flags.trainer.epochs, "Epochs; 0, with --load, only evaluates")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1000000}))
      ->capture_default_str();
  app.add_option("--batch", flags.batch, "Batch size; default: that of the published script");
  app.add_option("--width", flags.width, "Channels of the first layer, or units of a hidden layer");
  app.add_option("--depth", flags.depth, "Hidden layers, of a model that has this axis");
  app.add_option("--data_dir", flags.data_dir,
                 "Folder with MNIST, Fashion-MNIST or CIFAR-10 (default: TRAINBENCH_DATA_DIR, else "
                 "the system's Fashion-MNIST)");
  app.add_option("--seed", flags.trainer.seed, "Of weights, orders and dropout")
      ->capture_default_str();
  app.add_option("--validate", flags.trainer.validate, "Validate on this many test images; 0: none")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40))
      ->capture_default_str();
  app.add_option("--threads", flags.threads, "Threads of CPU backends")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--json", flags.json, "Also write the results to this file");
  app.add_option("--load", flags.load,
                 "Start from the state in this file, or from a framework's weights that "
                 "tools/export_weights brought into its form");
  app.add_option("--save", flags.save,
                 "Keep the state that is reached in this file (safetensors); tools/export_weights "
                 "brings it to PyTorch and Keras");
  app.add_option("--probe", flags.probe)->group("");
  app.add_option("--probe_seconds", flags.probe_seconds)->group("");
}

int run_train(int argc, char** argv) {
  TrainFlags flags;
  flags.data_dir = data_dir_from_environment();
  std::string backends;
  CLI::App app("Trains a published model and places this machine on the published ladder.",
               "train");
  add_flags(app, flags, backends);
  if (const auto status = parse_flags(app, argc, argv)) return *status;
  if (!flags.probe.empty()) {
    answer_probe(Session(flags.options(), make_backends()).backend(flags.probe),
                 flags.probe_seconds);
  }
  flags.backends = split(backends, ',');
  for (const Precision precision : {Precision::kFp32, Precision::kTf32, Precision::kBf16}) {
    if (flags.precision == to_string(precision)) flags.trainer.precision = precision;
  }
  flags.trainer.batch = flags.batch.value_or(find_model(flags.model).default_batch);
  check_batch(flags.trainer.batch);
  return train(flags);
}

}  // namespace
}  // namespace trainbench

int main(int argc, char** argv) {
  trainbench::stop_on_signals();
  try {
    return trainbench::run_train(argc, argv);
  } catch (const std::bad_alloc&) {
    std::cerr << "train: out of host memory; try a smaller batch or width\n";
    return trainbench::kDidNotFit;
  } catch (const trainbench::OutOfMemory& error) {
    std::cerr << "train: " << error.what() << "\n";
    return trainbench::kDidNotFit;
  } catch (const std::exception& error) {
    std::cerr << "train: " << error.what() << "\n";
    return trainbench::kFailed;
  }
}
