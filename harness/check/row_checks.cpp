#include "harness/check/row_checks.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <stdexcept>

#include "data/synthetic.hpp"
#include "harness/check/op_case.hpp"
#include "kernels/core/threefry.hpp"
#include "kernels/ops/adam.hpp"
#include "kernels/ops/gather.hpp"
#include "kernels/ops/softmax_cross_entropy.hpp"
#include "program/layerwise_program.hpp"
#include "program/naming.hpp"
#include "program/step_plan.hpp"

namespace trainbench {
namespace {

constexpr int kSamples = 96;  // Of each output at a timed shape: enough to tell mostly zeros.
constexpr int kTrajectorySteps = 5;

void check_case(Session& session, OpCase& op_case, std::optional<int> samples) {
  if (const auto wrong = op_case.check(session.reference().ops(), samples)) {
    throw std::runtime_error("check failed: " + *wrong);
  }
}

std::string key(const Backend& backend, Precision precision) {
  return std::string(backend.name()) + "/" + std::string(to_string(precision)) + "/";
}

// The losses of the first steps, from a given state.
std::vector<double> losses(Program& program, const ModelState& state, const DatasetView& data,
                           std::span<const std::uint32_t> order) {
  program.import_state(state);
  program.load(data);
  program.train(order, 0, kTrajectorySteps);
  std::vector<double> result;
  for (const StepMetrics& step : program.wait()) {
    result.push_back(step.loss_sum / static_cast<double>(step.samples));
  }
  return result;
}

// The state with every weight changed by up to one rounding of `epsilon`, relative.
ModelState perturbed(ModelState state, double epsilon, std::uint32_t seed) {
  for (std::size_t i = 0; i < state.parameters.size(); ++i) {
    const std::uint32_t bits = threefry::block({seed, 0}, {static_cast<std::uint32_t>(i), 0})[0];
    const double change = epsilon * (2 * (bits * 0x1p-32) - 1);
    state.parameters[i] = static_cast<float>(state.parameters[i] * (1 + change));
  }
  return state;
}

// A small relative of a model, for trajectories: the same depth, few channels.
ModelPoint small_relative(const ModelPoint& point) {
  ModelPoint small = point;
  small.batch = point.entry->small_batch;
  for (ModelAxis& axis : small.axes) {
    if (axis.name == "width") axis.value = std::min(axis.value, point.entry->small_width);
  }
  return small;
}

// A sample of the outputs of one pass at a problem's own shape.
void check_as_timed(Session& session, const std::shared_ptr<const OpProblem>& problem,
                    const Backend& backend, const CaseOptions& options, Pass pass) {
  std::string name = "shape/" + key(backend, options.precision) + std::string(problem->op()) + "/" +
                     std::string(to_string(pass)) + "/" + problem->describe() +
                     (options.input_gradient ? "" : "/first");
  for (const LayoutHint& hint : options.hints) {
    name += "/" + std::string(hint.operand) + ":" + hint.layout.name;
  }
  session.once(name, [&] {
    OpCase op_case(backend.ops(), session.device(backend), problem, pass, options);
    check_case(session, op_case, kSamples);
  });
}

// What the reference computes, and how far off rounding may lead.
struct Trajectory {
  std::vector<double> losses, spread;
};

Trajectory reference_trajectory(Session& session, const ModelSpec& spec,
                                const CompileOptions& options, const DatasetView& data,
                                std::span<const std::uint32_t> order, double epsilon) {
  const ModelState state = initial_state(spec, kRowSeed);
  const auto program =
      make_program(session.reference(), session.device(session.reference()), spec, options);
  Trajectory result{.losses = losses(*program, state, data, order), .spread = {}};
  result.spread.resize(result.losses.size());
  for (const std::uint32_t seed : {1u, 2u, 3u}) {
    const auto changed = losses(*program, perturbed(state, epsilon, seed), data, order);
    for (std::size_t i = 0; i < changed.size(); ++i) {
      result.spread[i] = std::max(result.spread[i], std::abs(changed[i] - result.losses[i]));
    }
  }
  return result;
}

void check_trajectory(Session& session, const ModelPoint& point, const Backend& backend,
                      Precision precision) {
  constexpr double kBand = 10, kFloor = 1e-6;
  const ModelPoint small = small_relative(point);
  const ModelSpec spec = small.spec();
  const Dataset set = synthetic(spec.sample, spec.classes(), kTrajectorySteps * small.batch, 1);
  std::vector<std::uint32_t> order;
  epoch_order(set.view().count, kRowSeed, 0, order);
  CompileOptions options{.batch = small.batch, .precision = Precision::kFp32, .seed = kRowSeed};
  const double epsilon = std::max(input_epsilon(precision), 0x1p-23);
  const Trajectory want = reference_trajectory(session, spec, options, set.view(), order, epsilon);
  options.precision = precision;
  const auto program = make_program(backend, session.device(backend), spec, options);
  const auto got = losses(*program, initial_state(spec, kRowSeed), set.view(), order);
  for (std::size_t i = 0; i < want.losses.size(); ++i) {
    const double allowed = kBand * want.spread[i] + kFloor * std::abs(want.losses[i]);
    if (i < got.size() && std::abs(got[i] - want.losses[i]) <= allowed) continue;
    std::ostringstream message;
    message.precision(9);
    message << "check failed: " << spec.name << " at batch " << small.batch << ": the loss of step "
            << i + 1 << " is " << (i < got.size() ? got[i] : NAN) << ", should be "
            << want.losses[i] << " +- " << allowed;
    throw std::runtime_error(message.str());
  }
}

}  // namespace

void check_op(Session& session, const OpSuite& suite, const Backend& backend, Precision precision,
              Pass pass) {
  session.once("op/" + key(backend, precision) + suite.op + "/" + std::string(to_string(pass)),
               [&] {
                 for (const auto& problem : suite.checks) {
                   for (const FillMode mode : {FillMode::kUniform, FillMode::kInteger}) {
                     if (mode == FillMode::kInteger && !problem->exact_on_integers()) continue;
                     OpCase op_case(backend.ops(), session.device(backend), problem, pass,
                                    {.precision = precision, .mode = mode});
                     check_case(session, op_case, {});
                   }
                 }
               });
}

void check_case(Session& session, OpCase& op_case) { check_case(session, op_case, kSamples); }

std::vector<StepOp> step_ops(const ModelSpec& spec, std::int64_t batch, std::int64_t samples) {
  constexpr std::int64_t kGatheredBatches = 20;
  std::vector<StepOp> ops = {
      {"gather",
       make_problem<Gather>({.batch = batch,
                             .count = samples > 0 ? samples : kGatheredBatches * batch,
                             .features = spec.sample.elements(),
                             .classes = spec.classes()}),
       {Pass::kForward}}};
  const std::vector<Shape> shapes = spec.activations();
  bool parameters_below = false;
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    if (!spec.layers[i].has_op()) continue;
    StepOp op{spec.layers[i].name, spec.layers[i].problem(batch, shapes[i], kRowSeed), {}};
    for (const Pass pass : op.problem->passes()) {
      if (pass != Pass::kBackwardData || parameters_below) op.passes.push_back(pass);
    }
    for (const Operand& operand : op.problem->operands(Pass::kForward)) {
      parameters_below = parameters_below || operand.role == Role::kParameter;
    }
    ops.push_back(std::move(op));
  }
  ops.push_back({"loss",
                 make_problem<SoftmaxCrossEntropy>({.batch = batch, .classes = spec.classes()}),
                 {Pass::kForward, Pass::kBackwardData}});
  ops.push_back({"adam",
                 make_problem<Adam>({.elements = spec.parameters(), .hyper = spec.adam}),
                 {Pass::kUpdate}});
  return ops;
}

double step_footprint(const std::vector<StepOp>& ops) {
  double bytes = 0;
  for (const StepOp& op : ops) {
    for (const Pass pass : op.passes) {
      for (const Operand& operand : op.problem->operands(pass)) {
        if (operand.is_written()) bytes += static_cast<double>(operand.bytes());
      }
    }
  }
  return bytes;
}

CaseOptions options_in_model(Session& session, const ModelSpec& spec, std::int64_t full_batch,
                             std::int64_t batch, const StepOp& op, const Backend& backend,
                             Precision precision) {
  CaseOptions options{.precision = precision};
  options.input_gradient = std::ranges::find(op.passes, Pass::kBackwardData) != op.passes.end();
  if (!backend.own_layouts()) return options;
  const std::string name = key(backend, precision) + spec.name + "/" +
                           std::to_string(spec.parameters()) + "/" + std::to_string(full_batch) +
                           "/" + std::to_string(batch);
  const Session::Hints& hints = session.hints(name, [&] {
    std::vector<ParameterSlot> slots;
    const OpTable ops = backend.ops();
    const auto plan = [&](std::int64_t samples) {
      return plan_step({.spec = spec,
                        .ops = ops,
                        .device = session.device(backend),
                        .batch = samples,
                        .precision = precision,
                        .seed = kRowSeed,
                        .inference = false},
                       slots)
          .hints;
    };
    Session::Hints result = plan(full_batch);  // Settles the forms of the parameters.
    if (batch != full_batch) result = plan(batch);
    return result;
  });
  const auto told = hints.find(op.name);
  if (told != hints.end()) options.hints = told->second;
  return options;
}

void check_model(Session& session, const ModelPoint& point, std::int64_t samples,
                 const Backend& backend, Precision precision) {
  const ModelSpec spec = point.spec();
  const OpTable table = backend.ops();
  for (const std::int64_t batch : {point.batch, samples % point.batch}) {
    if (batch == 0) continue;
    for (const StepOp& op : step_ops(spec, batch)) {
      const OpTable::Entry* entry = op.problem->find(table);
      if (entry == nullptr) continue;  // The backend only compiles whole models.
      // What is borrowed computes in fp32.
      const Precision computed = entry->own_in(precision) ? precision : Precision::kFp32;
      naming(spec.name + " " + op.name, [&] {
        CaseOptions options =
            options_in_model(session, spec, point.batch, batch, op, backend, precision);
        options.precision = computed;
        for (const Pass pass : op.passes) {
          check_as_timed(session, op.problem, backend, options, pass);
        }
      });
    }
  }
  std::string small = "trajectory/" + key(backend, precision) + spec.name;
  for (const ModelAxis& axis : small_relative(point).axes)
    small += "/" + std::to_string(axis.value);
  session.once(small, [&] { check_trajectory(session, point, backend, precision); });
}

void check_program(Session& session, const ModelPoint& point, Program& program,
                   const DatasetView& data, Precision precision) {
  constexpr std::int64_t kMostSamples = 32;
  constexpr double kMostMacs = 4e8;  // Bounds what the reference computes, in double.
  const ModelSpec spec = point.spec();
  double macs = 0;
  for (const StepOp& op : step_ops(spec, 1)) macs += op.problem->work(op.passes.front()).flops / 2;
  const auto affordable = static_cast<std::int64_t>(kMostMacs / std::max(macs, 1.0));
  const std::int64_t samples =
      std::min({kMostSamples, data.count, std::max<std::int64_t>(affordable, 2)});
  const auto reference = make_program(session.reference(), session.device(session.reference()),
                                      spec, {.batch = samples});
  reference->import_state(initial_state(spec, kRowSeed));
  const Evaluation want = reference->evaluate(data, 0, samples);
  const Evaluation got = program.evaluate(data, 0, samples);
  const double tolerance = 1e-5 + 8 * input_epsilon(precision);
  const auto different =
      std::ranges::mismatch(want.predicted, got.predicted).in1 - want.predicted.begin();
  const bool same =
      precision != Precision::kFp32 || (different == samples && got.correct == want.correct);
  if (std::abs(got.loss_sum - want.loss_sum) <= tolerance * want.loss_sum && same) return;
  std::ostringstream message;
  message.precision(9);
  message << "check failed: " << spec.name << " evaluates " << samples << " samples to a loss of "
          << got.loss_sum << ", should be " << want.loss_sum << " +- " << tolerance * want.loss_sum;
  if (!same) {
    message << "; predicts another class for sample " << different << ", " << got.correct
            << " correctly, not " << want.correct;
  }
  throw std::runtime_error(message.str());
}

}  // namespace trainbench
