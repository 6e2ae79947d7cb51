#include "program/layerwise_program.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <utility>

#include "kernels/core/checks.hpp"
#include "kernels/core/stop.hpp"
#include "kernels/ops/gather.hpp"
#include "kernels/ops/training_checks.hpp"
#include "program/step_plan.hpp"

namespace trainbench {
namespace {

constexpr std::size_t kMetricBytes = 8;  // Loss sum (float), correct (int32) of one step.

std::size_t index(Block block) { return static_cast<std::size_t>(block); }

class LayerwiseProgram final : public Program {
 public:
  LayerwiseProgram(OpTable ops, Device& device, const ModelSpec& spec,
                   const CompileOptions& options)
      : ops_(std::move(ops)),
        device_(device),
        spec_(spec),
        options_(options),
        converter_(ops_, device) {
    require(options.batch >= 1, "batch must be at least 1, not " + std::to_string(options.batch));
    require(options.devices == 1 && options.input == Input::kResident &&
                (options.launch == Launch::kDefault || options.launch == Launch::kStream),
            "the layer-by-layer executor runs on one device, with resident data, call by call");
    resize(Block::kCounters, kCounterBytes);
    plan(options.batch, false);
    plan_update();
  }

  void load(const DatasetView& training) override {
    check_training_data(spec_, options_.batch, training);
    training_.upload(device_, training);
    count_ = training.count;
    for (const std::int64_t batch : {options_.batch, count_ % options_.batch}) {
      if (batch == 0) continue;
      plan(batch, false);
      gathers_.erase(batch);
      gathers_.emplace(batch, make_gather(batch, training_, kTrainingCursor));
    }
    order_ = Buffer(device_, static_cast<std::size_t>(count_) * sizeof(std::uint32_t));
    check_order_ = OrderCheck(count_);
    host_order_.clear();
    host_order_.reserve(static_cast<std::size_t>(count_));
    next_step_ = -1;
    bind_all();
  }

  void train(std::span<const std::uint32_t> order, std::int64_t first_step,
             std::int64_t steps) override {
    if (count_ == 0) throw std::logic_error("train() needs load() first");
    use_order(order, first_step, steps);
    reserve_metrics(queued_.size() + static_cast<std::size_t>(steps));
    const std::int64_t per_epoch = (count_ + options_.batch - 1) / options_.batch;
    go_to_step(first_step % per_epoch);
    for (std::int64_t i = 0; i < steps; ++i) {
      check_stop();
      const std::int64_t step = std::exchange(next_step_, -1);  // Unknown if the step fails.
      train_step(std::min(options_.batch, count_ - step * options_.batch));
      next_step_ = step + 1 == per_epoch ? 0 : step + 1;
    }
  }

  std::span<const StepMetrics> wait() override {
    device_.synchronize();
    results_.resize(queued_.size());
    raw_metrics_.resize(queued_.size());
    device_.download(raw_metrics_.data(), at({Block::kMetrics, 0}), queued_.size() * kMetricBytes);
    for (std::size_t i = 0; i < queued_.size(); ++i) {
      results_[i] = {raw_metrics_[i].loss_sum, raw_metrics_[i].correct, queued_[i]};
    }
    queued_.clear();
    return results_;
  }

  Evaluation evaluate(const DatasetView& data, std::int64_t first, std::int64_t count) override {
    check_samples(spec_, data);
    const DatasetView part = data.slice(first, count);
    Evaluation result;
    result.predicted.resize(static_cast<std::size_t>(count));
    for (std::int64_t done = 0; done < count; done += options_.batch) {
      check_stop();
      const std::int64_t batch = std::min(options_.batch, count - done);
      evaluate_batch(part.slice(done, batch), result, done);
    }
    return result;
  }

  void import_state(const ModelState& state) override {
    const std::array<std::pair<Block, const std::vector<float>*>, 3> parts = {
        {{Block::kParameters, &state.parameters},
         {Block::kFirstMoments, &state.first_moments},
         {Block::kSecondMoments, &state.second_moments}}};
    device_.synchronize();
    for (const auto& [block, values] : parts) {
      require(
          std::ssize(*values) == spec_.parameters(),
          "a state of " + std::to_string(values->size()) + " values does not fit " + spec_.name);
      const float* next = values->data();
      for (const ParameterSlot& slot : slots_) {
        converter_.to_device(slot.operand, slot.layout, next, at({block, slot.offset}));
        next += slot.operand.elements();
      }
    }
    device_.upload(at(kStepCounter), &state.step, sizeof state.step);
    ++parameters_state_;
  }

  ModelState export_state() override {
    ModelState state;
    const std::array<std::pair<Block, std::vector<float>*>, 3> parts = {
        {{Block::kParameters, &state.parameters},
         {Block::kFirstMoments, &state.first_moments},
         {Block::kSecondMoments, &state.second_moments}}};
    device_.synchronize();
    for (const auto& [block, values] : parts) {
      values->resize(static_cast<std::size_t>(spec_.parameters()));
      float* next = values->data();
      for (const ParameterSlot& slot : slots_) {
        converter_.to_host(slot.operand, slot.layout, at({block, slot.offset}), next);
        next += slot.operand.elements();
      }
    }
    device_.download(&state.step, at(kStepCounter), sizeof state.step);
    return state;
  }

  std::vector<Phase> trace(std::span<const std::uint32_t> order, std::int64_t steps) override {
    const std::int64_t full_batches = count_ / options_.batch;
    require(steps >= 1 && steps <= full_batches, "a trace takes 1 to " +
                                                     std::to_string(full_batches) +
                                                     " steps, the full batches of an epoch");
    trace_.clear();
    trace_position_ = 0;
    const std::size_t queued_before = queued_.size();
    stopwatch_ = device_.make_stopwatch();
    try {
      train(order, 0, steps);
      device_.synchronize();
    } catch (...) {
      stopwatch_.reset();
      queued_.resize(queued_before);
      throw;
    }
    stopwatch_.reset();
    const auto traced = static_cast<double>(queued_.size() - queued_before);
    queued_.resize(queued_before);  // Nobody waits for the results of a trace.
    for (Phase& phase : trace_) phase.seconds /= traced;
    return trace_;
  }

  std::string label() const override {
    std::map<std::string, std::set<std::string>> implementations;
    std::set<std::string> borrowed;
    const auto add = [&](const Call& call) {
      const OpTable::Entry* entry = call.problem->find(ops_);
      if (entry->borrowed_from.empty()) {
        implementations[entry->op].insert(call.op->implementation(call.pass));
      } else {
        borrowed.insert(entry->borrowed_from + ":" + entry->op);
      }
    };
    for (const Call& call : full().calls) add(call);
    for (const auto& [batch, gather] : gathers_) add(gather.call);
    add(update_);
    std::string text = "program=layerwise";
    for (const auto& [op, names] : implementations) {
      text += ";" + op + "=" + join(names, '|');
    }
    if (!borrowed.empty()) text += ";borrowed=" + join(borrowed, ',');
    if (full().reorders > 0) text += ";reorders=" + std::to_string(full().reorders);
    return text;
  }

  // Of the parameters without their padding, so that it is the same on every backend.
  double effective_flops() const override {
    double flops =
        Adam::work({.elements = spec_.parameters(), .hyper = spec_.adam}, Pass::kUpdate).flops;
    for (const Call& call : full().calls) flops += call.problem->work(call.pass).flops;
    return flops;
  }
  double executed_flops() const override {
    const auto executed = [](const Call& call) {
      return trainbench::executed_flops(*call.op, *call.problem, call.pass);
    };
    double flops = executed(update_);
    for (const Call& call : full().calls) flops += executed(call);
    return flops;
  }

 private:
  // A data set in device memory.
  struct Resident {
    std::int64_t count = 0;
    Buffer images, labels;

    void upload(Device& device, const DatasetView& data) {
      const auto image_bytes = static_cast<std::size_t>(data.count * data.sample.elements());
      const auto label_bytes = static_cast<std::size_t>(data.count);
      if (image_bytes > images.bytes()) images = Buffer(device, image_bytes);
      if (label_bytes > labels.bytes()) labels = Buffer(device, label_bytes);
      device.upload(images.data(), data.images, image_bytes);
      device.upload(labels.data(), data.labels, label_bytes);
      count = data.count;
    }
  };
  struct PlannedGather {
    OwnedOp op;
    Call call;
    const Resident* source;
  };
  struct RawMetrics {
    float loss_sum;
    std::int32_t correct;
  };
  static_assert(sizeof(RawMetrics) == kMetricBytes);

  std::byte* at(Location location) const { return bases_[index(location.block)] + location.offset; }
  void resize(Block block, std::size_t bytes) {
    Buffer& buffer = blocks_[index(block)];
    if (bytes <= buffer.bytes() && buffer.data() != nullptr) return;
    device_.synchronize();  // Queued calls may use the old block.
    buffer = Buffer(device_, bytes);
    bases_[index(block)] = buffer.at(0);
    const std::vector<std::byte> zeros(std::min<std::size_t>(bytes, std::size_t{1} << 20));
    for (std::size_t done = 0; done < bytes; done += zeros.size()) {
      device_.upload(buffer.at(done), zeros.data(), std::min(zeros.size(), bytes - done));
    }
  }

  static std::string join(const std::set<std::string>& names, char separator) {
    std::string text;
    for (const std::string& name : names)
      text += (text.empty() ? "" : std::string(1, separator)) + name;
    return text;
  }

  // Gathering and updating work on blocks that the executor lays out.
  static void require_canonical(const OpObject& op, const std::vector<Operand>& operands) {
    for (const Operand& operand : operands) {
      if (layout_of(op, operand.name).canonical()) continue;
      throw Unsupported("the layer-by-layer executor hands " + std::string(operand.name) +
                        " over in canonical form, not as " + layout_of(op, operand.name).name);
    }
  }

  // Checks and copies an order, unless it is the one that is there already.
  void use_order(std::span<const std::uint32_t> order, std::int64_t first_step,
                 std::int64_t steps) {
    if (std::ranges::equal(order, host_order_) && first_step >= 0 && steps >= 0) return;
    check_order_(order, first_step, steps);
    device_.upload(order_.data(), order.data(), order.size_bytes());
    host_order_.assign(order.begin(), order.end());
  }

  // Puts the device's cursor on a step of the epoch, unless it stands there after the last one.
  void go_to_step(std::int64_t step) {
    if (step == next_step_) return;
    const auto cursor = static_cast<std::uint32_t>(step * options_.batch);
    device_.upload(at(kTrainingCursor), &cursor, sizeof cursor);
    next_step_ = step;
  }

  const StepPlan& full() const { return plans_.at({options_.batch, false}); }

  // Plans a batch size once; blocks grow as needed.
  StepPlan& plan(std::int64_t batch, bool inference) {
    const auto it = plans_.find({batch, inference});
    if (it != plans_.end()) return it->second;
    StepPlan made = plan_step({.spec = spec_,
                               .ops = ops_,
                               .device = device_,
                               .batch = batch,
                               .precision = options_.precision,
                               .seed = options_.seed,
                               .inference = inference},
                              slots_);
    resize(Block::kActivations, made.activation_bytes);  // The largest first: it may not fit.
    resize(Block::kInput,
           static_cast<std::size_t>(batch * spec_.sample.elements()) * sizeof(float));
    resize(Block::kLabels, static_cast<std::size_t>(batch) * sizeof(std::int32_t));
    resize(Block::kPredicted, static_cast<std::size_t>(batch) * sizeof(std::int32_t));
    resize(Block::kMetrics, kMetricBytes);
    if (made.scratch_bytes > scratch_.bytes()) scratch_ = Buffer(device_, made.scratch_bytes);
    StepPlan& plan = plans_.emplace(std::pair(batch, inference), std::move(made)).first->second;
    bind_all();
    return plan;
  }

  // The blocks of parameters and the one call that updates all of them. Padding between and inside
  // parameters is zero, and stays zero under Adam.
  void plan_update() {
    require(!slots_.empty(), spec_.name + " has no parameters to train");
    const std::size_t bytes = slots_.back().offset + slots_.back().bytes;
    for (const Block block :
         {Block::kParameters, Block::kGradients, Block::kFirstMoments, Block::kSecondMoments}) {
      resize(block, bytes);
    }
    const auto elements = static_cast<std::int64_t>(bytes / sizeof(float));
    const auto problem = make_problem<Adam>({.elements = elements, .hyper = spec_.adam});
    update_op_ = create_op(*problem, ops_, {.device = device_, .precision = options_.precision});
    update_ = {.phase = "adam/update",
               .op = update_op_.object.get(),
               .problem = problem,
               .pass = Pass::kUpdate,
               .operands = {},
               .locations = {}};
    for (const Operand& operand : problem->operands(Pass::kUpdate)) {
      update_.operands.push_back({nullptr, operand.shape, operand.type});
    }
    require_canonical(*update_op_.object, problem->operands(Pass::kUpdate));
    update_.locations = {{Block::kGradients, 0},
                         {Block::kParameters, 0},
                         {Block::kFirstMoments, 0},
                         {Block::kSecondMoments, 0},
                         kStepCounter};
    bind_all();
  }

  PlannedGather make_gather(std::int64_t batch, const Resident& source, Location cursor) {
    const auto problem = make_problem<Gather>({.batch = batch,
                                               .count = source.count,
                                               .features = spec_.sample.elements(),
                                               .classes = spec_.classes()});
    PlannedGather gather{
        .op = create_op(*problem, ops_, {.device = device_}), .call = {}, .source = &source};
    gather.call = {.phase = "gather/forward",
                   .op = gather.op.object.get(),
                   .problem = problem,
                   .pass = Pass::kForward,
                   .operands = {},
                   .locations = {}};
    for (const Operand& operand : problem->operands(Pass::kForward)) {
      gather.call.operands.push_back({nullptr, operand.shape, operand.type});
    }
    require_canonical(*gather.op.object, problem->operands(Pass::kForward));
    gather.call.operands[3].data = at(cursor);
    return gather;
  }

  void bind_all() {
    for (auto& [key, plan] : plans_) {
      for (OwnedOp& op : plan.ops) op.object->attach(op.state.data(), scratch_.data());
      for (Call& call : plan.calls) call.bind(bases_);
    }
    update_.bind(bases_);
    for (auto* gathers : {&gathers_, &evaluation_gathers_}) {
      for (auto& [batch, gather] : *gathers) {
        const bool training = gather.source == &training_;
        std::vector<Tensor>& t = gather.call.operands;
        t[0].data = gather.source->images.data();
        t[1].data = gather.source->labels.data();
        t[2].data = training ? order_.data() : evaluation_order_.data();
        t[4].data = at({Block::kInput, 0});
        t[5].data = at({Block::kLabels, 0});
      }
    }
  }

  void run(const Call& call) {
    if (stopwatch_ == nullptr) return call.run();
    stopwatch_->start();
    call.run();
    stopwatch_->stop();
    const double seconds = stopwatch_->seconds();
    if (trace_position_ == trace_.size()) trace_.push_back({call.phase, 0});
    trace_[trace_position_++].seconds += seconds;
  }

  void train_step(std::int64_t batch) {
    StepPlan& plan = plans_.find({batch, false})->second;
    bind_metrics(plan, queued_.size());
    tell_of_parameters(plan);
    trace_position_ = 0;
    run(gathers_.find(batch)->second.call);
    for (const Call& call : plan.calls) run(call);
    run(update_);
    ++parameters_state_;
    queued_.push_back(batch);
  }

  void tell_of_parameters(StepPlan& plan) const {
    if (plan.parameters_seen == parameters_state_) return;
    for (const OwnedOp& op : plan.ops) op.object->parameters_changed();
    plan.parameters_seen = parameters_state_;
  }

  void bind_metrics(StepPlan& plan, std::size_t slot) {
    std::byte* metrics = at({Block::kMetrics, slot * kMetricBytes});
    std::vector<Tensor>& operands = plan.calls[plan.loss_call].operands;
    operands[3].data = metrics;
    operands[4].data = metrics + sizeof(float);
  }

  // Room for the results of all steps queued, and one more for an evaluation.
  void reserve_metrics(std::size_t steps) {
    const std::size_t bytes = (steps + 1) * kMetricBytes;
    const std::size_t old = blocks_[index(Block::kMetrics)].bytes();
    if (bytes > old) {
      std::vector<std::byte> kept(queued_.size() * kMetricBytes);
      device_.synchronize();
      device_.download(kept.data(), at({Block::kMetrics, 0}), kept.size());
      resize(Block::kMetrics, std::max(bytes, 2 * old));
      device_.upload(at({Block::kMetrics, 0}), kept.data(), kept.size());
      bind_all();
    }
    queued_.reserve(steps);
    results_.reserve(steps);
    raw_metrics_.reserve(steps);
  }

  void evaluate_batch(const DatasetView& batch, Evaluation& result, std::int64_t done) {
    StepPlan& forward = plan(batch.count, true);
    prepare_evaluation(batch.count);
    reserve_metrics(queued_.size());
    bind_metrics(forward, queued_.size());
    evaluation_.upload(device_, batch);
    const std::uint32_t start = 0;
    device_.upload(at(kEvaluationCursor), &start, sizeof start);
    tell_of_parameters(forward);
    evaluation_gathers_.find(batch.count)->second.call.run();
    for (const Call& call : forward.calls) call.run();
    RawMetrics metrics;
    device_.synchronize();
    device_.download(&metrics, at({Block::kMetrics, queued_.size() * kMetricBytes}),
                     sizeof metrics);
    device_.download(result.predicted.data() + done, at({Block::kPredicted, 0}),
                     static_cast<std::size_t>(batch.count) * sizeof(std::int32_t));
    result.loss_sum += metrics.loss_sum;
    result.correct += metrics.correct;
  }

  // Memory and the gather for evaluation batches of a size: samples as they come.
  void prepare_evaluation(std::int64_t batch) {
    if (evaluation_gathers_.contains(batch)) return;
    const auto largest = static_cast<std::size_t>(options_.batch);
    if (evaluation_order_.data() == nullptr) {
      std::vector<std::uint32_t> identity(largest);
      std::iota(identity.begin(), identity.end(), 0u);
      evaluation_order_ = Buffer(device_, largest * sizeof(std::uint32_t));
      device_.upload(evaluation_order_.data(), identity.data(), largest * sizeof(std::uint32_t));
      evaluation_.images =
          Buffer(device_, largest * static_cast<std::size_t>(spec_.sample.elements()));
      evaluation_.labels = Buffer(device_, largest);
    }
    evaluation_.count = batch;
    evaluation_gathers_.emplace(batch, make_gather(batch, evaluation_, kEvaluationCursor));
    bind_all();
  }

  OpTable ops_;
  Device& device_;
  ModelSpec spec_;
  CompileOptions options_;
  LayoutConverter converter_;
  std::array<Buffer, static_cast<std::size_t>(Block::kCount)> blocks_;
  BlockBases bases_{};
  Buffer scratch_, order_, evaluation_order_;
  std::vector<ParameterSlot> slots_;
  std::map<std::pair<std::int64_t, bool>, StepPlan> plans_;  // By batch and inference.
  OwnedOp update_op_;
  Call update_;
  Resident training_, evaluation_;
  std::map<std::int64_t, PlannedGather> gathers_, evaluation_gathers_;  // By batch.
  std::int64_t parameters_state_ = 0;  // Counts updates and imports.
  std::int64_t count_ = 0;             // Training samples.
  OrderCheck check_order_;
  std::vector<std::uint32_t> host_order_;  // What order_ holds.
  std::int64_t next_step_ = -1;            // Where the device's cursor stands; -1: unknown.
  std::vector<std::int64_t> queued_;       // Samples of each step since the last wait.
  std::vector<RawMetrics> raw_metrics_;
  std::vector<StepMetrics> results_;
  std::unique_ptr<Stopwatch> stopwatch_;  // Only while tracing.
  std::vector<Phase> trace_;
  std::size_t trace_position_ = 0;
};

}  // namespace

std::unique_ptr<Program> make_layerwise_program(OpTable ops, Device& device, const ModelSpec& spec,
                                                const CompileOptions& options) {
  return std::make_unique<LayerwiseProgram>(std::move(ops), device, spec, options);
}

std::unique_ptr<Program> make_program(const Backend& backend, Device& device, const ModelSpec& spec,
                                      const CompileOptions& options) {
  if (auto program = backend.compile(spec, options, device)) return program;
  return make_layerwise_program(backend.ops(), device, spec, options);
}

}  // namespace trainbench
