#include "data/models.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "kernels/core/checks.hpp"
#include "kernels/core/threefry.hpp"
#include "kernels/ops/conv2d.hpp"
#include "kernels/ops/dense.hpp"
#include "kernels/ops/dropout.hpp"
#include "kernels/ops/max_pool2d.hpp"

namespace trainbench {

namespace {

// Numbers the layers of each kind, from 1 in names, and the dropout layers from 0 for their masks.
class ModelBuilder {
 public:
  ModelBuilder(std::string name, const Shape& sample)
      : spec_{.name = std::move(name), .sample = sample, .layers = {}, .adam = {}} {}

  void conv3x3(std::int64_t channels) {
    add<Conv2d>("conv" + std::to_string(++convs_),
                {.out_channels = channels, .window = {3, 1, Padding::kSame}, .bias = true});
  }
  void pool2x2() {
    add<MaxPool2d>("pool" + std::to_string(++pools_), {.window = {2, 2, Padding::kValid}});
  }
  void flatten() { spec_.layers.push_back(trainbench::flatten("flatten")); }
  void dropout(double rate) {
    const std::uint32_t index = dropouts_++;
    add<Dropout>("dropout" + std::to_string(dropouts_), {.rate = rate, .seed = 0, .layer = index});
  }
  void dense(std::int64_t units, bool relu) {
    add<Dense>("dense" + std::to_string(++denses_), {.units = units, .relu = relu, .bias = true});
  }
  ModelSpec finish() { return std::move(spec_); }

 private:
  template <LayerOp Op>
  void add(std::string name, const typename Op::Config& config) {
    spec_.layers.push_back(layer<Op>(std::move(name), config));
  }

  ModelSpec spec_;
  int convs_ = 0, pools_ = 0, denses_ = 0;
  std::uint32_t dropouts_ = 0;
};

void check_range(const std::string& model, const std::string& axis, std::int64_t value,
                 std::int64_t largest) {
  require(value >= 1 && value <= largest, model + " needs a " + axis + " from 1 to " +
                                              std::to_string(largest) + ", not " +
                                              std::to_string(value));
}

constexpr std::int64_t kMaxWidth = 65536;
constexpr std::int64_t kMaxDepth = 1000;

}  // namespace

ModelSpec cifar10_cnn(std::int64_t width) {
  check_range("cifar10_cnn", "width", width, kMaxWidth);
  ModelBuilder model("cifar10_cnn", {32, 32, 3});
  model.conv3x3(width);
  model.conv3x3(width);
  model.pool2x2();
  model.conv3x3(2 * width);
  model.conv3x3(2 * width);
  model.pool2x2();
  model.conv3x3(4 * width);
  model.conv3x3(4 * width);
  model.flatten();
  model.dropout(0.3);
  model.dense(128, /*relu=*/true);
  model.dense(10, /*relu=*/false);
  return model.finish();
}

ModelSpec mnist_mlp(std::int64_t depth, std::int64_t width) {
  check_range("mnist_mlp", "depth", depth, kMaxDepth);
  check_range("mnist_mlp", "width", width, kMaxWidth);
  ModelBuilder model("mnist_mlp", {28, 28, 1});
  model.flatten();
  for (std::int64_t i = 0; i < depth; ++i) {
    model.dense(width, /*relu=*/true);
    model.dropout(0.2);
  }
  model.dense(10, /*relu=*/false);
  return model.finish();
}

const std::vector<ModelEntry>& models() {
  static const std::vector<ModelEntry> kModels = {
      {"cifar10_cnn",
       100,
       50000,
       {{{"width", 32}}},
       8,
       4,
       [](const ModelAxes& axes) { return cifar10_cnn(axes[0].value); }},
      {"mnist_mlp",
       32,
       60000,
       {{{"depth", 1}, {"width", 128}}, {{"depth", 2}, {"width", 1000}}},
       32,
       32,
       [](const ModelAxes& axes) { return mnist_mlp(axes[0].value, axes[1].value); }},
  };
  return kModels;
}

const ModelEntry& find_model(std::string_view name) {
  std::string known;
  for (const ModelEntry& entry : models()) {
    if (entry.name == name) return entry;
    known += (known.empty() ? "" : ", ") + entry.name;
  }
  throw std::invalid_argument("no model '" + std::string(name) + "'; there are: " + known);
}

ModelAxes ModelEntry::axes(const ModelAxes& changes) const {
  ModelAxes result = variants.front();
  for (const ModelAxis& change : changes) {
    const auto it = std::ranges::find(result, change.name, &ModelAxis::name);
    require(it != result.end(), name + " has no " + change.name);
    it->value = change.value;
  }
  return result;
}

void check_batch(std::int64_t batch) {
  constexpr std::int64_t kMaxBatch = 1 << 20;
  require(batch >= 1 && batch <= kMaxBatch, "a batch has from 1 to " + std::to_string(kMaxBatch) +
                                                " samples, not " + std::to_string(batch));
}

namespace {

// Second key words of the generator, far from the small numbers of the dropout layers: the streams
// of one seed never meet.
constexpr std::uint32_t kWeightStream = 0x77656967;
constexpr std::uint32_t kOrderStream = 0x6f726465;

float glorot_limit(const Shape& weights) {
  const std::size_t rank = weights.rank();
  const std::int64_t in = weights[rank - 2], out = weights[rank - 1];
  const std::int64_t area = weights.elements() / (in * out);
  return static_cast<float>(std::sqrt(6.0 / static_cast<double>(area * (in + out))));
}

void fill_uniform(std::span<float> values, float limit, std::uint32_t seed, std::uint32_t tensor) {
  // 24 bits fill a float's significand: the value is exact up to the product's one rounding.
  const auto uniform = [limit](std::uint32_t word) {
    return limit * (static_cast<float>(word >> 8) * 0x1p-23f - 1.0f);
  };
  for (std::size_t i = 0; i < values.size(); i += 2) {
    const auto words =
        threefry::block({seed, kWeightStream}, {tensor, static_cast<std::uint32_t>(i / 2)});
    values[i] = uniform(words[0]);
    if (i + 1 < values.size()) values[i + 1] = uniform(words[1]);
  }
}

}  // namespace

ModelState initial_state(const ModelSpec& spec, std::uint32_t seed) {
  const auto count = static_cast<std::size_t>(spec.parameters());
  ModelState state;
  state.parameters.resize(count);
  state.first_moments.resize(count);
  state.second_moments.resize(count);

  std::uint32_t tensor = 0;
  for (const ModelParameter& parameter : spec.parameter_list()) {
    const std::span values(state.parameters.data() + parameter.offset, parameter.elements());
    // Of rank 1 are biases, which stay zero.
    if (parameter.shape.rank() >= 2) {
      fill_uniform(values, glorot_limit(parameter.shape), seed, tensor);
    }
    ++tensor;
  }
  return state;
}

void epoch_order(std::int64_t count, std::uint32_t seed, std::uint32_t epoch,
                 std::vector<std::uint32_t>& order) {
  require(count >= 0 && count <= std::numeric_limits<std::uint32_t>::max(),
          "an epoch has from 0 to 2^32 - 1 samples, not " + std::to_string(count));
  order.resize(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::uint32_t>(i);
  // Fisher and Yates's shuffle. The upper word of (random 32 bits) * (i + 1) picks one of i + 1
  // places; the odds of places differ by less than (i + 1) / 2^32.
  for (std::size_t i = order.size(); i-- > 1;) {
    const auto words =
        threefry::block({seed, kOrderStream}, {epoch, static_cast<std::uint32_t>(i / 2)});
    const std::uint64_t place = (std::uint64_t{words[i % 2]} * (i + 1)) >> 32;
    std::swap(order[i], order[place]);
  }
}

}  // namespace trainbench
