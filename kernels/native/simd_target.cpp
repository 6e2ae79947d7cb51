#include "kernels/native/simd_target.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/native/simd_target.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace trainbench::native {
namespace HWY_NAMESPACE {
namespace {

const char* target_name() { return hwy::TargetName(HWY_TARGET); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trainbench::native
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trainbench::native {

HWY_EXPORT(target_name);

std::string simd_target() { return HWY_DYNAMIC_DISPATCH(target_name)(); }

}  // namespace trainbench::native
#endif
