#include "kernels/ops/avg_pool2d.hpp"

#include "benchmarks/ops/pooling.hpp"

namespace trainbench {

OpSuite avg_pool2d_suite() { return pooling_suite<AvgPool2d>(); }

}  // namespace trainbench
