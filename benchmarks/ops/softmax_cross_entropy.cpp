#include "kernels/ops/softmax_cross_entropy.hpp"

#include "harness/check/op_suite.hpp"

namespace trainbench {
namespace {

std::shared_ptr<const OpProblem> problem(std::int64_t batch, std::int64_t classes) {
  return make_problem<SoftmaxCrossEntropy>({.batch = batch, .classes = classes});
}

}  // namespace

OpSuite softmax_cross_entropy_suite() {
  OpSuite suite{.op = "softmax_cross_entropy", .timed = {}, .checks = {}};
  const auto add = [&suite](std::int64_t batch, std::int64_t classes, Tier tier) {
    suite.timed.push_back(
        {{axis("batch", batch), axis("classes", classes)}, problem(batch, classes), tier, batch});
  };
  add(32, 10, Tier::kSmoke);
  add(100, 10, Tier::kDefault);
  add(1000, 1000, Tier::kFull);
  suite.checks = {problem(1, 1), problem(1, 10), problem(7, 3), problem(33, 10), problem(5, 129)};
  return suite;
}

}  // namespace trainbench
