#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <typeindex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/core/op.hpp"

namespace trainbench {

// The ops that one backend can create, keyed by op type; filling it touches no device.
class OpTable {
 public:
  template <TrainingOp Op>
  using Factory = std::unique_ptr<OpObject> (*)(const OpContext&, const typename Op::Problem&);

  struct Entry {
    std::string op;                     // Op::kName.
    std::string borrowed_from;          // The backend the op is borrowed from; empty for an own op.
    std::vector<Precision> precisions;  // Those that the op is there for; empty: all.
    std::function<std::unique_ptr<OpObject>(const OpContext&, const void* problem)> create;

    bool own_in(Precision precision) const {
      return borrowed_from.empty() &&
             (precisions.empty() || std::ranges::find(precisions, precision) != precisions.end());
    }
  };

  // `precisions`: those that the op is there for, where these are not all of its backend's; a
  // program in another precision creates it nevertheless, between operands of its own forms.
  template <TrainingOp Op>
  void add(Factory<Op> factory, std::vector<Precision> precisions = {}) {
    entries_[typeid(Op)] = {std::string(Op::kName), "", std::move(precisions),
                            [factory](const OpContext& context, const void* problem) {
                              return factory(context,
                                             *static_cast<const typename Op::Problem*>(problem));
                            }};
  }

  // The op by a class that is made from the context and the problem.
  template <TrainingOp Op, std::derived_from<Op> Implementation>
  void add(std::vector<Precision> precisions = {}) {
    const Factory<Op> make = [](const OpContext& context,
                                const typename Op::Problem& problem) -> std::unique_ptr<OpObject> {
      return std::make_unique<Implementation>(context, problem);
    };
    add<Op>(make, std::move(precisions));
  }

  // Takes the named ops of another backend; throws std::logic_error when it has no such op of its
  // own, or when this table has one already.
  void borrow(std::string_view owner, const OpTable& from,
              std::initializer_list<std::string_view> ops);

  template <TrainingOp Op>
  const Entry* find() const {
    const auto it = entries_.find(typeid(Op));
    return it == entries_.end() ? nullptr : &it->second;
  }
  std::vector<std::string> own_ops() const;       // Names, sorted.
  std::vector<std::string> borrowed_ops() const;  // "native:adam", sorted.

 private:
  std::unordered_map<std::type_index, Entry> entries_;
};

// One op with its problem, type erased: what the harness needs to create, check and time it.
class OpProblem {
 public:
  virtual ~OpProblem() = default;
  virtual std::string_view op() const = 0;
  virtual std::string describe() const = 0;
  virtual std::vector<Pass> passes() const = 0;
  virtual std::vector<Operand> operands(Pass pass) const = 0;
  virtual Work work(Pass pass) const = 0;
  virtual std::int64_t reduction_length(Pass pass) const = 0;
  // Only sums and products of inputs: small integers give exact results, in any order of summation.
  virtual bool exact_on_integers() const = 0;
  virtual const OpTable::Entry* find(const OpTable& table) const = 0;
  // Throws Unsupported when the table lacks the op.
  virtual std::unique_ptr<OpObject> create(const OpTable& table,
                                           const OpContext& context) const = 0;
  // The typed problem when it is one of `Op`, else null: for backends that compile whole models.
  template <TrainingOp Op>
  const typename Op::Problem* as() const;

 protected:
  virtual const void* typed(std::type_index op) const = 0;
};

namespace detail {

template <TrainingOp Op>
class TypedOpProblem final : public OpProblem {
 public:
  explicit TypedOpProblem(const typename Op::Problem& problem) : problem_(problem) {
    Op::validate(problem_);
  }
  std::string_view op() const override { return Op::kName; }
  std::string describe() const override { return Op::describe(problem_); }
  std::vector<Pass> passes() const override { return Op::passes(problem_); }
  std::vector<Operand> operands(Pass pass) const override { return Op::operands(problem_, pass); }
  Work work(Pass pass) const override { return Op::work(problem_, pass); }
  std::int64_t reduction_length(Pass pass) const override {
    return Op::reduction_length(problem_, pass);
  }
  bool exact_on_integers() const override {
    return requires { Op::kExactOnIntegers; };
  }
  const OpTable::Entry* find(const OpTable& table) const override { return table.find<Op>(); }
  std::unique_ptr<OpObject> create(const OpTable& table, const OpContext& context) const override {
    const OpTable::Entry* entry = find(table);
    if (entry == nullptr) throw Unsupported("no " + std::string(Op::kName) + " in this backend");
    return entry->create(context, &problem_);
  }

 protected:
  const void* typed(std::type_index op) const override {
    return op == std::type_index(typeid(Op)) ? &problem_ : nullptr;
  }

 private:
  typename Op::Problem problem_;
};

}  // namespace detail

template <TrainingOp Op>
const typename Op::Problem* OpProblem::as() const {
  return static_cast<const typename Op::Problem*>(typed(typeid(Op)));
}

// FLOPs that a pass of an object for a problem executes: what the object says, else the
// definition's.
inline double executed_flops(const OpObject& op, const OpProblem& problem, Pass pass) {
  const double flops = op.executed_flops(pass);
  return flops < 0 ? problem.work(pass).flops : flops;
}

// Throws std::invalid_argument for a problem that makes no sense.
template <TrainingOp Op>
std::shared_ptr<const OpProblem> make_problem(const typename Op::Problem& problem) {
  return std::make_shared<detail::TypedOpProblem<Op>>(problem);
}

}  // namespace trainbench
