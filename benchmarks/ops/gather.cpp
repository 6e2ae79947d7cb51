#include "kernels/ops/gather.hpp"

#include "harness/check/op_suite.hpp"

namespace trainbench {
namespace {

std::shared_ptr<const OpProblem> problem(std::int64_t batch, std::int64_t count,
                                         std::int64_t features) {
  return make_problem<Gather>(
      {.batch = batch, .count = count, .features = features, .classes = 10});
}

}  // namespace

OpSuite gather_suite() {
  OpSuite suite{.op = "gather", .timed = {}, .checks = {}};
  const auto add = [&suite](std::int64_t batch, std::int64_t count, std::int64_t features,
                            Tier tier) {
    suite.timed.push_back({{axis("batch", batch), axis("count", count), axis("features", features)},
                           problem(batch, count, features),
                           tier,
                           batch});
  };
  add(32, 3200, 784, Tier::kSmoke);
  add(32, 60000, 784, Tier::kDefault);
  add(100, 50000, 3072, Tier::kDefault);
  suite.checks = {problem(1, 1, 1), problem(3, 3, 7), problem(2, 9, 784), problem(33, 40, 65)};
  return suite;
}

}  // namespace trainbench
