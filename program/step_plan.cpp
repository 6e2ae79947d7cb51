#include "program/step_plan.hpp"

#include <algorithm>
#include <stdexcept>

#include "kernels/ops/reorder.hpp"
#include "kernels/ops/softmax_cross_entropy.hpp"
#include "program/memory_plan.hpp"

namespace trainbench {
namespace {

// A tensor of the plan. Views share the memory of their root.
struct Value {
  Shape shape;
  DType type = DType::kFloat32;
  Layout layout;
  Location location;     // For values outside the activation block.
  bool planned = false;  // In the activation block: location is found by lifetime.
  int root = -1;         // Of a view.
  Lifetime lifetime;
};

class PlanBuilder {
 public:
  PlanBuilder(const PlanRequest& request, std::vector<ParameterSlot>& slots)
      : request_(request), slots_(slots), first_plan_(slots.empty()) {
    plan_.batch = request.batch;
  }

  StepPlan build() {
    const Shape input = request_.spec.sample.batched(request_.batch);
    int activation = external(input, {Block::kInput, 0});
    labels_ = external({request_.batch}, {Block::kLabels, 0}, DType::kInt32);
    step_ = external({1}, kStepCounter, DType::kUint32);
    std::vector<Shape> samples = request_.spec.activations();
    for (std::size_t i = 0; i < request_.spec.layers.size(); ++i) {
      activation = forward(request_.spec.layers[i], samples[i], activation);
    }
    loss(activation);
    if (!request_.inference) backward();
    place();
    return std::move(plan_);
  }

 private:
  // A layer that was planned, for the way back.
  struct Planned {
    std::string name;
    std::shared_ptr<const OpProblem> problem;  // Null for a change of shape.
    OpObject* op = nullptr;
    int x = -1, y = -1;
    std::size_t first_slot = 0;
    bool has_parameters = false;
  };

  int add(Value value) {
    values_.push_back(std::move(value));
    return static_cast<int>(values_.size()) - 1;
  }
  int external(const Shape& shape, Location location, DType type = DType::kFloat32,
               const Layout& layout = {}) {
    return add({.shape = shape,
                .type = type,
                .layout = layout,
                .location = location,
                .planned = false,
                .root = -1,
                .lifetime = {}});
  }
  int planned(const Operand& operand, const Layout& layout) {
    const auto now = static_cast<int>(plan_.calls.size());
    const Lifetime lifetime{LayoutConverter::bytes(operand, layout), now, now};
    return add({.shape = operand.shape,
                .type = operand.type,
                .layout = layout,
                .location = {},
                .planned = true,
                .root = -1,
                .lifetime = lifetime});
  }
  int view(int of, const Shape& shape) {
    Value value = values_[static_cast<std::size_t>(of)];
    value.root = value.root >= 0 ? value.root : of;
    value.shape = shape;
    return add(std::move(value));
  }
  const Value& at(int id) const { return values_[static_cast<std::size_t>(id)]; }

  OpObject* create(const std::string& layer, const OpProblem& problem,
                   const std::vector<LayoutHint>& hints, bool input_gradient = true) {
    OwnedOp op;
    op.object = naming(layer, [&] {
      return problem.create(request_.ops, {.device = request_.device,
                                           .precision = request_.precision,
                                           .inference = request_.inference,
                                           .input_gradient = input_gradient,
                                           .hints = hints});
    });
    if (op.object->state_bytes() != 0) op.state = Buffer(request_.device, op.object->state_bytes());
    plan_.scratch_bytes = std::max(plan_.scratch_bytes, op.object->scratch_bytes());
    plan_.ops.push_back(std::move(op));
    return plan_.ops.back().object.get();
  }

  void emit(std::string phase, OpObject* op, std::shared_ptr<const OpProblem> problem, Pass pass,
            const std::vector<int>& operands) {
    const auto now = static_cast<int>(plan_.calls.size());
    Call call{.phase = std::move(phase),
              .op = op,
              .problem = std::move(problem),
              .pass = pass,
              .operands = {},
              .locations = {}};
    for (const Operand& operand : call.problem->operands(pass)) {
      call.operands.push_back({nullptr, operand.shape, operand.type});
    }
    for (const int id : operands) {
      const int root = at(id).root >= 0 ? at(id).root : id;
      values_[static_cast<std::size_t>(root)].lifetime.last = now;
    }
    plan_.calls.push_back(std::move(call));
    call_values_.push_back(operands);
  }

  // The value in the wanted layout: itself, or a reordered copy (into `target` if that is given).
  int adapt(int id, const Layout& wanted, const std::string& name, int target = -1) {
    if (at(id).layout == wanted && target < 0) return id;
    const Shape shape = at(id).shape;
    const auto problem =
        make_problem<Reorder>({.shape = shape, .from = at(id).layout, .to = wanted});
    OpObject* op = create(name, *problem, {});
    const int result = target >= 0 ? target : planned({"y", shape, Role::kOutput}, wanted);
    emit(name + "/reorder", op, problem, Pass::kForward, {id, result});
    ++plan_.reorders;
    return result;
  }

  int forward(const LayerSpec& layer, const Shape& sample, int x) {
    if (!layer.has_op()) {
      const int canonical = adapt(x, {}, layer.name);
      const int y = view(canonical, layer.output(sample).batched(request_.batch));
      layers_.push_back({.name = layer.name, .problem = nullptr, .op = nullptr, .x = x, .y = y});
      return y;
    }
    if (request_.inference && layer.type == "Dropout") return x;  // The identity.
    Planned entry{.name = layer.name,
                  .problem = layer.problem(request_.batch, sample, request_.seed),
                  .op = nullptr,
                  .x = -1,
                  .y = -1,
                  .first_slot = next_slot_};
    const std::vector<Operand> operands = entry.problem->operands(Pass::kForward);
    // Nothing needs gradients below the first layer with parameters.
    const std::vector<LayoutHint>& told = plan_.hints[layer.name] = hints(operands, x);
    entry.op = create(layer.name, *entry.problem, told, next_slot_ != 0);
    entry.x = adapt(x, layout_of(*entry.op, "x"), layer.name);
    for (const Operand& operand : operands) {
      if (operand.role == Role::kParameter) take_slot(layer.name, operand, *entry.op);
    }
    const Shape output = layer.output(sample).batched(request_.batch);
    entry.y = planned({"y", output, Role::kOutput}, layout_of(*entry.op, "y"));
    entry.has_parameters = next_slot_ != entry.first_slot;
    emit_pass(entry, Pass::kForward, -1, -1);
    layers_.push_back(entry);
    return entry.y;
  }

  std::vector<LayoutHint> hints(const std::vector<Operand>& operands, int x) const {
    std::vector<LayoutHint> result = {{"x", at(x).layout}};
    std::size_t slot = next_slot_;
    for (const Operand& operand : operands) {
      if (operand.role != Role::kParameter || first_plan_) continue;
      result.push_back({operand.name, slots_.at(slot++).layout});
    }
    return result;
  }

  // Moves on to the next parameter; the first plan settles its form and place.
  void take_slot(const std::string& layer, const Operand& operand, const OpObject& op) {
    if (first_plan_) {
      const Layout wanted = layout_of(op, operand.name);
      const Layout layout = wanted.fp32 ? wanted : Layout{};
      const std::size_t bytes = LayoutConverter::bytes(operand, layout);
      const std::size_t offset =
          slots_.empty() ? 0 : aligned(slots_.back().offset + slots_.back().bytes);
      slots_.push_back({layer + "." + std::string(operand.name), operand, layout, offset, bytes});
    }
    ++next_slot_;
  }

  int slot_value(const ParameterSlot& slot, Block block) {
    return external(slot.operand.shape, {block, slot.offset}, DType::kFloat32, slot.layout);
  }

  // Emits one pass of a layer; dy and dx where the pass has them.
  void emit_pass(const Planned& entry, Pass pass, int dy, int dx) {
    std::vector<int> operands;
    std::vector<std::pair<int, int>> copies;  // Gradients to reorder into their slots afterwards.
    for (const Operand& operand : entry.problem->operands(pass)) {
      operands.push_back(operand_value(entry, operand, dy, dx, copies));
    }
    emit(entry.name + "/" + std::string(to_string(pass)), entry.op, entry.problem, pass, operands);
    for (const auto& [from, to] : copies) adapt(from, at(to).layout, entry.name, to);
  }

  int operand_value(const Planned& entry, const Operand& operand, int dy, int dx,
                    std::vector<std::pair<int, int>>& copies) {
    if (operand.name == "x") return entry.x;
    if (operand.name == "y") return entry.y;
    if (operand.name == "dy") return dy;
    if (operand.name == "dx") return dx;
    if (operand.name == "step") return step_;
    const bool gradient = operand.is_written();
    const std::string_view parameter = gradient ? operand.name.substr(1) : operand.name;
    for (std::size_t i = entry.first_slot; i < slots_.size(); ++i) {
      const ParameterSlot& slot = slots_[i];
      if (slot.operand.name != parameter) continue;
      const Layout wanted = layout_of(*entry.op, parameter);
      const int place = slot_value(slot, gradient ? Block::kGradients : Block::kParameters);
      if (!gradient) return adapt(place, wanted, slot.name);
      if (wanted == slot.layout) return place;
      copies.emplace_back(planned(operand, wanted), place);
      return copies.back().first;
    }
    throw std::logic_error("layer " + entry.name + " has no value for its operand " +
                           std::string(operand.name));
  }

  void loss(int logits) {
    const std::int64_t classes = at(logits).shape.elements() / request_.batch;
    const auto problem =
        make_problem<SoftmaxCrossEntropy>({.batch = request_.batch, .classes = classes});
    OpObject* op = create("loss", *problem, {{"x", at(logits).layout}});
    const Operand y{"y", {request_.batch, classes}, Role::kOutput};
    loss_ = {.name = "loss",
             .problem = problem,
             .op = op,
             .x = adapt(logits, layout_of(*op, "x"), "loss"),
             .y = -1};
    loss_.y = planned(y, layout_of(*op, "y"));
    const int loss_sum = external({1}, {Block::kMetrics, 0});
    const int correct = external({1}, {Block::kMetrics, 4}, DType::kInt32);
    const int predicted = external({request_.batch}, {Block::kPredicted, 0}, DType::kInt32);
    plan_.loss_call = plan_.calls.size();
    emit("loss/forward", op, problem, Pass::kForward,
         {loss_.x, labels_, loss_.y, loss_sum, correct, predicted});
  }

  // From the loss back to the first layer with parameters; nothing needs gradients below that.
  void backward() {
    const Operand dx{"dx", at(loss_.x).shape, Role::kOutput};
    int slope = planned(dx, layout_of(*loss_.op, "dx"));
    emit("loss/backward_data", loss_.op, loss_.problem, Pass::kBackwardData,
         {loss_.y, labels_, slope});
    const auto first = std::ranges::find_if(layers_, &Planned::has_parameters);
    for (auto entry = layers_.rbegin(); entry != std::make_reverse_iterator(first); ++entry) {
      slope = backward(*entry, slope, &*entry != &*first);
    }
  }

  int backward(const Planned& entry, int slope, bool needs_dx) {
    if (entry.problem == nullptr) {
      return view(adapt(slope, {}, entry.name), at(entry.x).shape);
    }
    const int dy = adapt(slope, layout_of(*entry.op, "dy"), entry.name);
    int dx = -1;
    for (const Pass pass : entry.problem->passes()) {
      if (pass == Pass::kBackwardWeights) emit_pass(entry, pass, dy, -1);
      if (pass != Pass::kBackwardData || !needs_dx) continue;
      dx = planned({"dx", at(entry.x).shape, Role::kOutput}, layout_of(*entry.op, "dx"));
      emit_pass(entry, pass, dy, dx);
    }
    return dx;
  }

  // Turns values into places: lifetimes are known now.
  void place() {
    std::vector<Lifetime> lifetimes;
    std::vector<std::size_t> owners;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (!values_[i].planned || values_[i].root >= 0) continue;
      lifetimes.push_back(values_[i].lifetime);
      owners.push_back(i);
    }
    const MemoryPlan memory = plan_memory(lifetimes);
    plan_.activation_bytes = memory.bytes;
    for (std::size_t i = 0; i < owners.size(); ++i) {
      values_[owners[i]].location = {Block::kActivations, memory.offsets[i]};
    }
    for (std::size_t c = 0; c < plan_.calls.size(); ++c) {
      for (const int id : call_values_[c]) {
        const int root = at(id).root >= 0 ? at(id).root : id;
        plan_.calls[c].locations.push_back(at(root).location);
      }
    }
  }

  const PlanRequest& request_;
  std::vector<ParameterSlot>& slots_;
  const bool first_plan_;
  std::size_t next_slot_ = 0;
  StepPlan plan_;
  std::vector<Value> values_;
  std::vector<std::vector<int>> call_values_;
  std::vector<Planned> layers_;
  Planned loss_;
  int labels_ = -1, step_ = -1;
};

}  // namespace

void Call::bind(const BlockBases& bases) {
  for (std::size_t i = 0; i < operands.size(); ++i) {
    std::byte* base = bases[static_cast<std::size_t>(locations[i].block)];
    operands[i].data = base + locations[i].offset;
  }
}

StepPlan plan_step(const PlanRequest& request, std::vector<ParameterSlot>& slots) {
  return PlanBuilder(request, slots).build();
}

}  // namespace trainbench
