#include "kernels/ops/relu.hpp"

#include "harness/check/op_suite.hpp"

namespace trainbench {

OpSuite relu_suite() {
  OpSuite suite{.op = "relu", .timed = {}, .checks = {}};
  for (const auto& [elements, tier] : {std::pair<std::int64_t, Tier>{4096, Tier::kSmoke},
                                       {100 * 128, Tier::kDefault},
                                       {1 << 20, Tier::kDefault},
                                       {1 << 24, Tier::kFull}}) {
    suite.timed.push_back(
        {{axis("elements", elements)}, make_problem<Relu>({.elements = elements}), tier});
  }
  for (const std::int64_t elements : {1, 7, 64, 1001, 40000}) {
    suite.checks.push_back(make_problem<Relu>({.elements = elements}));
  }
  return suite;
}

}  // namespace trainbench
