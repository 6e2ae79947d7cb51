#include "kernels/ops/reorder.hpp"

#include "harness/check/op_suite.hpp"

namespace trainbench {
namespace {

std::shared_ptr<const OpProblem> problem(Shape shape, bool to_planar) {
  const Layout planar = Reorder::planar();
  return make_problem<Reorder>(
      {.shape = shape, .from = to_planar ? Layout{} : planar, .to = to_planar ? planar : Layout{}});
}

}  // namespace

OpSuite reorder_suite() {
  OpSuite suite{.op = "reorder", .timed = {}, .checks = {}};
  const auto add = [&suite](std::int64_t batch, std::int64_t size, std::int64_t channels,
                            Tier tier) {
    for (const bool to_planar : {true, false}) {
      suite.timed.push_back({{axis("batch", batch), axis("size", size), axis("channels", channels),
                              to_planar ? "layout:nchw" : "layout:nhwc"},
                             problem({batch, size, size, channels}, to_planar),
                             tier,
                             batch});
    }
  };
  add(8, 16, 16, Tier::kSmoke);
  add(100, 32, 32, Tier::kDefault);
  add(100, 32, 3, Tier::kFull);
  for (const bool to_planar : {true, false}) {
    suite.checks.push_back(problem({1, 1, 1, 1}, to_planar));
    suite.checks.push_back(problem({2, 5, 7, 3}, to_planar));
    suite.checks.push_back(problem({3, 9, 4, 33}, to_planar));
  }
  suite.checks.push_back(make_problem<Reorder>({.shape = {3, 50}, .from = {}, .to = {}}));
  return suite;
}

}  // namespace trainbench
