#include "harness/check/op_case.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numeric>
#include <sstream>

#include "harness/check/plain_op.hpp"
#include "kernels/core/element_oracle.hpp"
#include "kernels/core/host_device.hpp"

namespace trainbench {
namespace {

constexpr std::size_t kGuardBytes = 64;
constexpr std::uint32_t kGuardWord = 0xFEEDC0DE;
constexpr std::uint32_t kPoisonNan = 0x7FC0DEAD;  // A quiet NaN that no kernel produces.
constexpr std::int64_t kLargestInteger = 4;       // 2^20 products of such stay exact in fp32.
constexpr double kMostlyZeros = 0.95;
constexpr std::int64_t kFewElements = 64;
constexpr int kSamplesOfSecondCall = 16;

// SplitMix64 (Steele, Lea and Flood, 2014): fast and good enough to fill operands.
class FillGenerator {
 public:
  explicit FillGenerator(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ull) {}
  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15ull;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  float unit() { return static_cast<float>(next() >> 40) * 0x1p-24f; }  // In [0, 1).
  std::int64_t below(std::int64_t limit) {
    return static_cast<std::int64_t>(next() %
                                     static_cast<std::uint64_t>(std::max<std::int64_t>(limit, 1)));
  }

 private:
  std::uint64_t state_;
};

void store_integer(const Operand& operand, void* host, std::int64_t index, std::int64_t value) {
  switch (operand.type) {
    case DType::kFloat32:
      static_cast<float*>(host)[index] = static_cast<float>(value);
      break;
    case DType::kInt32:
      static_cast<std::int32_t*>(host)[index] = static_cast<std::int32_t>(value);
      break;
    case DType::kUint32:
      static_cast<std::uint32_t*>(host)[index] = static_cast<std::uint32_t>(value);
      break;
    case DType::kUint8:
      static_cast<std::uint8_t*>(host)[index] = static_cast<std::uint8_t>(value);
      break;
  }
}

double load(const Operand& operand, const void* host, std::int64_t index) {
  switch (operand.type) {
    case DType::kFloat32:
      return static_cast<const float*>(host)[index];
    case DType::kInt32:
      return static_cast<const std::int32_t*>(host)[index];
    case DType::kUint32:
      return static_cast<const std::uint32_t*>(host)[index];
    case DType::kUint8:
      return static_cast<const std::uint8_t*>(host)[index];
  }
  return 0;
}

// Host memory for canonical values. The system grants what it does not have and kills later.
std::vector<std::byte> host_memory(std::size_t bytes) {
  constexpr std::size_t kWorthAsking = std::size_t{1} << 20;
  const std::size_t available = bytes < kWorthAsking ? 0 : available_memory();
  if (available != 0 && bytes > available) {
    throw OutOfMemory("out of host memory: " + std::to_string(bytes) +
                      " bytes needed to check an operand, " + std::to_string(available) +
                      " available; try a smaller batch or width");
  }
  return std::vector<std::byte>(bytes);
}

// All indices below `elements`, or `samples` of them that include the first and the last.
std::vector<std::int64_t> chosen(std::int64_t elements, std::optional<int> samples) {
  std::vector<std::int64_t> indices;
  if (!samples || *samples >= elements) {
    indices.resize(static_cast<std::size_t>(elements));
    std::iota(indices.begin(), indices.end(), 0);
    return indices;
  }
  FillGenerator generator(static_cast<std::uint64_t>(elements));
  indices = {0, elements - 1};
  while (static_cast<int>(indices.size()) < *samples) indices.push_back(generator.below(elements));
  return indices;
}

// From one copy of an operand to the next, with guards before and behind each.
std::size_t copy_stride(std::size_t bytes) { return aligned(bytes + 2 * kGuardBytes); }

}  // namespace

void fill_operand(const Operand& operand, FillMode mode, std::uint64_t seed, void* host) {
  FillGenerator generator(seed);
  const std::int64_t elements = operand.elements();
  auto* floats = static_cast<float*>(host);
  const bool is_real =
      operand.fill.kind == Fill::Kind::kUniform || operand.fill.kind == Fill::Kind::kPositive;
  if (is_real && mode == FillMode::kInteger) {
    const std::int64_t lowest = operand.fill.kind == Fill::Kind::kUniform ? -kLargestInteger : 0;
    for (std::int64_t i = 0; i < elements; ++i) {
      floats[i] = static_cast<float>(lowest + generator.below(kLargestInteger - lowest + 1));
    }
    return;
  }
  switch (operand.fill.kind) {
    case Fill::Kind::kUniform:
      for (std::int64_t i = 0; i < elements; ++i) floats[i] = 2 * generator.unit() - 1;
      break;
    case Fill::Kind::kPositive:
      for (std::int64_t i = 0; i < elements; ++i) floats[i] = generator.unit();
      break;
    case Fill::Kind::kBelow:
      for (std::int64_t i = 0; i < elements; ++i) {
        store_integer(operand, host, i, generator.below(operand.fill.limit));
      }
      break;
    case Fill::Kind::kPermutation: {
      auto* order = static_cast<std::uint32_t*>(host);
      std::iota(order, order + elements, 0u);
      for (std::int64_t i = elements - 1; i > 0; --i)
        std::swap(order[i], order[generator.below(i + 1)]);
      break;
    }
    case Fill::Kind::kZero:
      std::memset(host, 0, operand.bytes());
      break;
  }
}

void* OpCase::Value::data(std::size_t copy) const {
  return buffer.at(kGuardBytes + copy % copies * copy_stride(bytes));
}

OpCase::OpCase(const OpTable& ops, Device& device, std::shared_ptr<const OpProblem> problem,
               Pass pass, const CaseOptions& options)
    : device_(device),
      problem_(std::move(problem)),
      pass_(pass),
      precision_(options.precision),
      ops_(ops),
      converter_(ops_, device),
      mode_(options.mode),
      list_(problem_->operands(pass)) {
  const auto start = std::chrono::steady_clock::now();
  const OpContext context{.device = device,
                          .precision = precision_,
                          .inference = false,
                          .input_gradient = options.input_gradient,
                          .hints = options.hints};
  if (options.plain) {
    auto plain = std::make_unique<PlainOp>(ops_, context, *problem_);
    plain_ = plain.get();
    op_ = std::move(plain);
  } else {
    op_ = problem_->create(ops_, context);
  }
  creation_seconds_ =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (op_->state_bytes() != 0) state_ = guarded(op_->state_bytes());
  if (op_->scratch_bytes() != 0) scratch_ = guarded(op_->scratch_bytes());
  op_->attach(state_.data() == nullptr ? nullptr : state_.at(kGuardBytes),
              scratch_.data() == nullptr ? nullptr : scratch_.at(kGuardBytes));
  poison_scratch();
  const auto copies =
      static_cast<std::size_t>(std::max(1.0, std::ceil(options.footprint / bytes_of_call())));
  for (const Pass earlier : problem_->passes()) {
    if (earlier > pass) break;
    for (const Operand& operand : problem_->operands(earlier)) {
      if (values_.contains(operand.name)) continue;
      const bool used = std::ranges::find(list_, operand.name, &Operand::name) != list_.end();
      add_value(operand, 1 + values_.size(), used && !is_shared(operand) ? copies : 1);
    }
    if (earlier != pass) op_->run(earlier, bind(earlier));
  }
  device_.synchronize();
  // What earlier passes computed is input now.
  for (const Operand& operand : list_) {
    Value& value = values_.find(operand.name)->second;
    if (value.operand.is_written() && operand.is_read()) {
      converter_.to_host(value.operand, value.layout, value.data(), value.first.data());
    }
    value.operand = operand;
    fill_copies(value);
  }
  for (std::size_t copy = 0; copy < copies; ++copy) bindings_.push_back(bind(pass, copy));
}

double OpCase::bytes_of_call() const {
  double bytes = 0;
  for (const Operand& operand : list_) bytes += static_cast<double>(operand.bytes());
  return std::max(1.0, std::min(bytes, problem_->work(pass_).bytes));
}

// A data set, of which a call takes a part, and counters, which are used all the time.
bool OpCase::is_shared(const Operand& operand) const {
  return static_cast<double>(operand.bytes()) > bytes_of_call() || operand.bytes() < kGuardBytes;
}

void OpCase::add_value(const Operand& operand, std::uint64_t seed, std::size_t copies) {
  const Layout layout = layout_of(*op_, operand.name);
  const std::size_t bytes = LayoutConverter::bytes(operand, layout);
  Value value{.operand = operand,
              .layout = layout,
              .bytes = bytes,
              .copies = copies,
              .buffer = guarded(bytes, copies),
              .first = host_memory(operand.bytes())};
  if (operand.is_read()) {
    fill_operand(operand, mode_, seed, value.first.data());
    round(operand, layout_of(plain_ == nullptr ? *op_ : plain_->inner(), operand.name),
          value.first);
    converter_.to_device(operand, value.layout, value.first.data(), value.data());
  } else {
    poison(value);
  }
  values_.emplace(operand.name, std::move(value));
}

// To what a form can hold. The definition must see what the op sees: rounding makes ties among the
// inputs of a maximum.
void OpCase::round(const Operand& operand, const Layout& layout,
                   std::vector<std::byte>& host) const {
  if (layout.canonical() || layout.fp32) return;
  const Buffer form(device_, layout.bytes);
  converter_.to_device(operand, layout, host.data(), form.data());
  converter_.to_host(operand, layout, form.data(), host.data());
}

// To all copies of an operand what its first one holds.
void OpCase::fill_copies(Value& value) {
  if (value.copies == 1) return;
  std::vector<std::byte> held = host_memory(value.bytes);
  device_.download(held.data(), value.data(), held.size());
  for (std::size_t copy = 1; copy < value.copies; ++copy) {
    device_.upload(value.data(copy), held.data(), held.size());
  }
}

Buffer OpCase::guarded(std::size_t bytes, std::size_t copies) {
  const std::size_t stride = copy_stride(bytes);
  Buffer buffer(device_, copies * stride);
  const std::vector<std::uint32_t> guard(kGuardBytes / sizeof kGuardWord, kGuardWord);
  for (std::size_t copy = 0; copy < copies; ++copy) {
    device_.upload(buffer.at(copy * stride), guard.data(), kGuardBytes);
    device_.upload(buffer.at(copy * stride + kGuardBytes + bytes), guard.data(), kGuardBytes);
  }
  return buffer;
}

void OpCase::poison_scratch() {
  if (scratch_.data() == nullptr) return;
  const std::vector<std::uint32_t> nans((op_->scratch_bytes() + 3) / 4, kPoisonNan);
  device_.upload(scratch_.at(kGuardBytes), nans.data(), op_->scratch_bytes());
}

void OpCase::poison(Value& value) {
  std::vector<std::byte> host = host_memory(value.operand.bytes());
  std::ranges::fill(host, std::byte{0xA5});
  if (value.operand.type == DType::kFloat32) {
    for (std::size_t i = 0; i + 4 <= host.size(); i += 4) std::memcpy(&host[i], &kPoisonNan, 4);
  }
  converter_.to_device(value.operand, value.layout, host.data(), value.data());
}

std::vector<Tensor> OpCase::bind(Pass pass, std::size_t copy) const {
  std::vector<Tensor> tensors;
  for (const Operand& operand : problem_->operands(pass)) {
    const Value& value = values_.find(operand.name)->second;
    tensors.push_back({value.data(copy), operand.shape, operand.type});
  }
  return tensors;
}

void OpCase::reset() {
  device_.synchronize();
  for (const Operand& operand : list_) {
    Value& value = values_.find(operand.name)->second;
    if (!operand.is_written()) continue;
    if (operand.role == Role::kOutput) poison(value);
    if (operand.role == Role::kInOut) {
      converter_.to_device(operand, value.layout, value.first.data(), value.data());
    }
    fill_copies(value);
  }
  device_.synchronize();
}

std::string OpCase::where() const {
  return std::string(problem_->op()) + " " + std::string(to_string(pass_)) + " " +
         problem_->describe() + " (" + op_->implementation(pass_) + ")";
}

std::optional<std::string> OpCase::broken_guard() const {
  std::vector<std::uint32_t> guard(kGuardBytes / sizeof kGuardWord);
  // `data` is what `bytes` between guards hold.
  const auto broken = [&](const void* data, std::size_t bytes,
                          const std::string& what) -> std::optional<std::string> {
    const auto* begin = static_cast<const std::byte*>(data);
    for (const std::byte* at : {begin - kGuardBytes, begin + bytes}) {
      device_.download(guard.data(), at, kGuardBytes);
      if (std::ranges::all_of(guard, [](std::uint32_t word) { return word == kGuardWord; }))
        continue;
      return where() + " wrote " + (at < begin ? "before" : "behind") + " " + what;
    }
    return std::nullopt;
  };
  for (const auto& [name, value] : values_) {
    if (auto message = broken(value.data(used_), value.bytes, "the operand " + name)) {
      return message;
    }
  }
  if (state_.data() != nullptr) {
    if (auto message = broken(state_.at(kGuardBytes), op_->state_bytes(), "its state")) {
      return message;
    }
  }
  if (scratch_.data() == nullptr) return std::nullopt;
  return broken(scratch_.at(kGuardBytes), op_->scratch_bytes(), "its scratch");
}

// Only where the layout keeps every bit.
std::optional<std::string> OpCase::changed_input() const {
  for (const Operand& operand : list_) {
    const Value& value = values_.find(operand.name)->second;
    if (operand.is_written() || !value.layout.canonical()) continue;
    std::vector<std::byte> now = host_memory(operand.bytes());
    device_.download(now.data(), value.data(used_), now.size());
    if (now != value.first) return where() + " changed its input " + std::string(operand.name);
  }
  return std::nullopt;
}

std::optional<std::string> OpCase::check(const OpTable& reference, std::optional<int> samples) {
  // What is timed is not the first call: the second must do its work again.
  for (const std::optional<int> compared : {samples, std::optional<int>(kSamplesOfSecondCall)}) {
    reset();
    poison_scratch();
    run();
    device_.synchronize();
    if (auto broken = broken_guard()) return broken;
    if (auto changed = changed_input()) return changed;
    if (auto wrong = compare(reference, compared)) return wrong;
  }
  return std::nullopt;
}

std::optional<std::string> OpCase::compare(const OpTable& reference, std::optional<int> samples) {
  HostDevice host(1);
  const auto truth = problem_->create(reference, {.device = host});
  const auto* oracle = dynamic_cast<const ElementOracle*>(truth.get());
  if (oracle == nullptr) throw std::logic_error("the reference has no definition of " + where());
  std::vector<Tensor> inputs;
  for (const Operand& operand : list_) {
    inputs.push_back(
        {values_.find(operand.name)->second.first.data(), operand.shape, operand.type});
  }
  const double relative =
      relative_tolerance(precision_, problem_->reduction_length(pass_), op_->error_factor(pass_));
  const bool exact = mode_ == FillMode::kInteger && problem_->exact_on_integers() &&
                     precision_ == Precision::kFp32 && op_->error_factor(pass_) == 1;
  for (std::size_t output = 0; output < list_.size(); ++output) {
    const Operand& operand = list_[output];
    if (!operand.is_written()) continue;
    const Value& value = values_.find(operand.name)->second;
    std::vector<std::byte> got = host_memory(operand.bytes());
    converter_.to_host(operand, value.layout, value.data(used_), got.data());
    const std::vector<std::int64_t> indices = chosen(operand.elements(), samples);
    std::vector<double> want(indices.size());
    double largest = 0;
    std::int64_t zeros = 0;
    for (std::size_t i = 0; i < indices.size(); ++i) {
      want[i] = oracle->element(pass_, inputs, output, indices[i]);
      largest = std::max(largest, std::abs(want[i]));
      zeros += want[i] == 0 ? 1 : 0;
    }
    const double allowed = operand.type == DType::kFloat32 && !exact ? relative * largest : 0;
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const double actual = load(operand, got.data(), indices[i]);
      if (std::abs(actual - want[i]) <= allowed) continue;  // Never true for a NaN.
      std::ostringstream message;
      message.precision(9);
      message << where() << ": " << operand.name << "[" << indices[i] << "] is " << actual
              << ", should be " << want[i] << " +- " << allowed;
      return message.str();
    }
    const auto few = static_cast<std::int64_t>(indices.size()) < kFewElements;
    if (!few && operand.type == DType::kFloat32 &&
        static_cast<double>(zeros) > kMostlyZeros * static_cast<double>(indices.size())) {
      return where() + ": " + std::string(operand.name) + " is mostly zeros, which proves nothing";
    }
  }
  return std::nullopt;
}

bool OpCase::includes_reorder() const { return plain_ != nullptr && plain_->reorders(pass_); }

double OpCase::executed_flops() const { return trainbench::executed_flops(*op_, *problem_, pass_); }

}  // namespace trainbench
