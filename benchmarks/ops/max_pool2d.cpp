#include "kernels/ops/max_pool2d.hpp"

#include "benchmarks/ops/pooling.hpp"

namespace trainbench {

OpSuite max_pool2d_suite() { return pooling_suite<MaxPool2d>(); }

}  // namespace trainbench
