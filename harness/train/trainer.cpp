#include "harness/train/trainer.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "data/models.hpp"
#include "kernels/core/stop.hpp"
#include "program/layerwise_program.hpp"

namespace trainbench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

LossAccuracy evaluate(Program& program, const DatasetView& data, std::int64_t count,
                      std::vector<std::int32_t>* predicted) {
  Evaluation evaluation = program.evaluate(data, 0, count);
  if (predicted != nullptr) *predicted = std::move(evaluation.predicted);
  const auto samples = static_cast<double>(std::max<std::int64_t>(count, 1));
  return {evaluation.loss_sum / samples, static_cast<double>(evaluation.correct) / samples};
}

// One epoch, in pieces of about a tenth of a second, so that progress shows and a stop is heeded.
EpochResult train_epoch(Program& program, std::span<const std::uint32_t> order, std::int64_t batch,
                        const TrainerEvents& events) {
  constexpr double kPieceSeconds = 0.1;
  const std::int64_t all = (std::ssize(order) + batch - 1) / batch;
  StepSums sums;
  double seconds = 0;
  std::int64_t piece = 1;
  for (std::int64_t done = 0; done < all;) {
    check_stop();
    const std::int64_t steps = std::min(piece, all - done);
    const auto start = Clock::now();
    program.train(order, done, steps);
    sums.add(program.wait());
    const double took = seconds_since(start);
    seconds += took;
    done += steps;
    if (!sums.finite()) {
      throw std::runtime_error("diverged: the loss of step " + std::to_string(done) +
                               " is not finite");
    }
    if (events.progress) events.progress(done, all, sums.means());
    const double per_step = std::max(took / static_cast<double>(steps), 1e-9);
    piece =
        std::clamp<std::int64_t>(static_cast<std::int64_t>(kPieceSeconds / per_step), 1, 8 * piece);
  }
  EpochResult result{.seconds = seconds, .training = sums.means(), .validation = {}};
  result.us_per_sample = 1e6 * seconds / static_cast<double>(order.size());
  return result;
}

}  // namespace

void train_model(const Backend& backend, Device& device, const ModelSpec& spec,
                 const TrainTest& data, const TrainerOptions& options, const TrainerEvents& events,
                 TrainingResult& result) {
  const auto begin = Clock::now();
  const DatasetView training = data.train.view(), test = data.test.view();
  const auto program =
      make_program(backend, device, spec,
                   {.batch = options.batch, .precision = options.precision, .seed = options.seed});
  program->load(training);
  result.state = options.initial ? *options.initial : initial_state(spec, options.seed);
  program->import_state(result.state);
  result.setup_seconds = seconds_since(begin);
  if (events.set_up) events.set_up();
  const auto after_set_up = Clock::now();
  result.label = program->label();
  result.executed_flops = program->executed_flops();
  const std::int64_t validate = std::min(options.validate, test.count);
  std::vector<std::uint32_t> order;
  for (std::int64_t epoch = 0; epoch < options.epochs; ++epoch) {
    epoch_order(training.count, options.seed, static_cast<std::uint32_t>(epoch), order);
    EpochResult done = train_epoch(*program, order, options.batch, events);
    if (validate > 0) done.validation = evaluate(*program, test, validate, nullptr);
    done.not_learning = is_guessing(done.training.loss, spec.classes());
    result.state = program->export_state();
    result.epochs.push_back(done);
    if (events.epoch_done) events.epoch_done(epoch, done);
  }
  const auto start = Clock::now();
  result.test = evaluate(*program, test, test.count, &result.predicted);
  result.evaluate_seconds = seconds_since(start);
  result.total_seconds = result.setup_seconds + seconds_since(after_set_up);
}

}  // namespace trainbench
