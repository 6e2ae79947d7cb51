#include "kernels/ops/adam.hpp"

#include "harness/check/op_suite.hpp"

namespace trainbench {

OpSuite adam_suite() {
  OpSuite suite{.op = "adam", .timed = {}, .checks = {}};
  for (const auto& [elements, tier] : {std::pair<std::int64_t, Tier>{4096, Tier::kSmoke},
                                       {101770, Tier::kDefault},
                                       {1337002, Tier::kDefault},
                                       {1 << 24, Tier::kFull}}) {
    suite.timed.push_back({{axis("elements", elements)},
                           make_problem<Adam>({.elements = elements, .hyper = {}}),
                           tier});
  }
  for (const std::int64_t elements : {1, 15, 1000, 40007}) {
    suite.checks.push_back(make_problem<Adam>({.elements = elements, .hyper = {}}));
  }
  return suite;
}

}  // namespace trainbench
