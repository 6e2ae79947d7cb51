#include "harness/rows/model_rows.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "harness/rows/roof_share.hpp"
#include "harness/rows/timing.hpp"
#include "harness/run/session.hpp"
#include "harness/train/step_sums.hpp"
#include "program/layerwise_program.hpp"

namespace trainbench {
namespace {

struct PreparedModel {
  ModelSpec spec;
  std::unique_ptr<Program> program;
  const TrainTest* data = nullptr;
  std::vector<std::uint32_t> order;
  std::int64_t steps_per_epoch = 0;
  double setup_seconds = 0;

  void reset() { program->import_state(initial_state(spec, kRowSeed)); }
};

std::unique_ptr<PreparedModel> prepare(Session& session, const ModelRow& row,
                                       const Backend& backend, Precision precision,
                                       DataCache& data) {
  auto prepared = std::make_unique<PreparedModel>();
  prepared->spec = row.point.spec();
  prepared->data = &data.get(session, prepared->spec);
  const DatasetView training = prepared->data->train.view();
  epoch_order(training.count, kRowSeed, 0, prepared->order);
  prepared->steps_per_epoch = (training.count + row.point.batch - 1) / row.point.batch;
  const auto start = std::chrono::steady_clock::now();
  prepared->program = make_program(backend, session.device(backend), prepared->spec,
                                   {.batch = row.point.batch,
                                    .precision = precision,
                                    .input = row.variant.input,
                                    .launch = row.variant.launch,
                                    .devices = row.variant.devices,
                                    .seed = kRowSeed});
  prepared->program->load(training);
  prepared->reset();
  prepared->program->train(prepared->order, 0, 1);
  prepared->program->wait();
  const std::chrono::duration<double> setup = std::chrono::steady_clock::now() - start;
  prepared->setup_seconds = setup.count();
  prepared->reset();
  // After set-up, for which they would otherwise pay what is compiled or loaded only once.
  check_model(session, row.point, training.count, backend, precision);
  check_program(session, row.point, *prepared->program, training, precision);
  warm_up(session.device(backend), [&] {
    prepared->program->train(prepared->order, 0, 1);
    prepared->program->wait();
  });
  return prepared;
}

// A loss that is not a number, or a whole epoch that taught nothing, is an error.
StepSums sum_up(std::span<const StepMetrics> steps, const PreparedModel& prepared) {
  StepSums sums;
  sums.add(steps);
  if (!sums.finite()) throw std::runtime_error("diverged: the loss is not finite");
  const bool whole_epoch = std::ssize(steps) >= prepared.steps_per_epoch;
  if (whole_epoch && is_guessing(sums.means().loss, prepared.spec.classes())) {
    throw std::runtime_error("not learning: after an epoch the loss is still that of guessing");
  }
  return sums;
}

void run_model_row(benchmark::State& state, Session& session, const ModelRow& row,
                   const std::string& name, const Backend& backend, Precision precision,
                   DataCache& data) {
  auto& prepared = session.prepared<PreparedModel>(
      name, [&] { return prepare(session, row, backend, precision, data); });
  prepared.reset();
  const bool epoch = row.family == "epoch";
  const std::int64_t epoch_steps = row.steps == 0 ? prepared.steps_per_epoch : row.steps;
  const std::int64_t steps = epoch ? epoch_steps : static_cast<std::int64_t>(state.max_iterations);
  std::span<const StepMetrics> metrics;
  double seconds = 0;
  if (backend.on_host()) session.roofs();  // Measured before the clock starts.
  session.hygiene().restart();
  while (state.KeepRunningBatch(epoch ? 1 : state.max_iterations)) {
    const auto start = std::chrono::steady_clock::now();
    prepared.program->train(prepared.order, 0, steps);
    metrics = prepared.program->wait();
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  const StepSums sums = sum_up(metrics, prepared);
  const double steps_per_second = static_cast<double>(steps) / seconds;
  state.counters["examples_per_second"] = static_cast<double>(sums.samples()) / seconds;
  state.counters["ms_per_step"] = 1e3 / steps_per_second;
  state.counters["flops"] = prepared.program->effective_flops() * steps_per_second;
  state.counters["loss"] = sums.means().loss;
  state.counters["accuracy"] = sums.means().accuracy;
  state.counters["setup_ms"] = 1e3 * prepared.setup_seconds;
  std::string label = "data=" + prepared.data->train.name +
                      ";device=" + session.device(backend).name() + ";" + prepared.program->label();
  const std::string device_label = session.device(backend).label();
  if (!device_label.empty()) label += ";" + device_label;
  if (backend.on_host()) {
    const double executed = prepared.program->executed_flops();
    const auto share = flops_share(session.roofs(), precision, executed, 1 / steps_per_second);
    if (share) {
      state.counters["percent_of_peak"] = share->percent;
      label += ";roof=" + share->roof;
      if (share->suspect) label += ";warning=suspect: above its roof";
    }
  }
  state.SetLabel(label);
}

}  // namespace

const TrainTest& DataCache::get(Session& session, const ModelSpec& spec) {
  const std::string shape = to_string(spec.sample);
  const auto it = sets_.find(shape);
  if (it != sets_.end()) return it->second;
  const TrainTest& set =
      sets_.emplace(shape, load_for_model(spec, session.options().data_dir)).first->second;
  session.add_context("data_" + shape, set.train.name);
  session.add_context("data_" + shape + "_checksum", set.train.checksum);
  session.add_context("data_" + shape + "_source", set.train.source);
  return set;
}

Row make_model_row(const ModelRow& row, const Backend& backend, Precision precision,
                   const std::shared_ptr<DataCache>& data) {
  std::vector<std::string> axes = {axis("batch", row.point.batch)};
  for (const ModelAxis& value : row.point.axes) axes.push_back(axis(value.name, value.value));
  axes.insert(axes.end(), row.variant.axes.begin(), row.variant.axes.end());
  if (row.steps > 0) axes.push_back(axis("steps", row.steps));
  const std::string name =
      row_name(row.family, row.point.entry->name, "train", std::string(backend.name()),
               std::string(to_string(precision)), axes);
  return {.name = name,
          .tier = row.tier,
          .backend = std::string(backend.name()),
          .precision = precision,
          .body = [=, &backend](benchmark::State& state, Session& session) {
            run_model_row(state, session, row, name, backend, precision, *data);
          }};
}

bool can_train(const Backend& backend, const ModelSpec& spec) {
  if (!backend.contends()) return false;
  if (backend.compiles()) return true;
  const OpTable ops = backend.ops();
  const auto has = [&ops](const StepOp& op) { return op.problem->find(ops) != nullptr; };
  return std::ranges::all_of(step_ops(spec, 1), has);
}

}  // namespace trainbench
