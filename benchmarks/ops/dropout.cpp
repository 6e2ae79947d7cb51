#include "kernels/ops/dropout.hpp"

#include "harness/check/op_suite.hpp"

namespace trainbench {

OpSuite dropout_suite() {
  OpSuite suite{.op = "dropout", .timed = {}, .checks = {}};
  for (const auto& [elements, tier] : {std::pair<std::int64_t, Tier>{4096, Tier::kSmoke},
                                       {100 * 8192, Tier::kDefault},
                                       {1 << 24, Tier::kFull}}) {
    suite.timed.push_back({{axis("elements", elements)},
                           make_problem<Dropout>({.elements = elements, .rate = 0.3, .seed = 1}),
                           tier});
  }
  for (const auto& [elements, rate] : {std::pair<std::int64_t, double>{1, 0.2},
                                       {17, 0.5},
                                       {1000, 0.0},
                                       {40001, 0.3},
                                       {333, 0.9}}) {
    suite.checks.push_back(
        make_problem<Dropout>({.elements = elements, .rate = rate, .seed = 7, .layer = 1}));
  }
  return suite;
}

}  // namespace trainbench
