# Finds oneDNN, any version 3, by its own CMake package, under both names that it has had: dnnl and
# oneDNN. Looked at are dnnl_ROOT, CMAKE_PREFIX_PATH, oneAPI's DNNLROOT, the system, and at last
# .deps/onednn, where tools/setup puts it.
#
# Defines OneDNN_FOUND and OneDNN::OneDNN, or OneDNN_PROBLEM: what was found, and what to do.

find_package(dnnl 3 QUIET CONFIG NAMES dnnl oneDNN DNNL
             HINTS "$ENV{DNNLROOT}" "${DNNL_ROOT}" "${oneDNN_ROOT}"
             PATHS "${PROJECT_SOURCE_DIR}/.deps/onednn")

set(OneDNN_PROBLEM "")
set(advice "Run tools/setup, which installs it into .deps/onednn, or set dnnl_ROOT to the prefix of a \
oneDNN v3 built with OpenMP or TBB.")
if(NOT dnnl_FOUND)
  set(refused "")
  if(dnnl_CONSIDERED_VERSIONS)
    list(GET dnnl_CONSIDERED_CONFIGS 0 config)
    list(GET dnnl_CONSIDERED_VERSIONS 0 version)
    set(refused " (${config} is version ${version})")
  endif()
  set(OneDNN_PROBLEM "Looked for the CMake packages dnnl and oneDNN, version 3, in vain${refused}. ${advice}")
else()
  include(CheckCXXSourceCompiles)
  set(libraries DNNL::dnnl)
  if(DNNL_CPU_THREADING_RUNTIME STREQUAL "TBB" AND TARGET TBB::tbb)
    list(APPEND libraries TBB::tbb)
  endif()
  # Another library than that of the last configure run must be checked anew.
  if(NOT OneDNN_CHECKED STREQUAL "${dnnl_DIR}")
    unset(OneDNN_LINKS CACHE)
    set(OneDNN_CHECKED "${dnnl_DIR}" CACHE INTERNAL "")
  endif()
  set(CMAKE_REQUIRED_LIBRARIES ${libraries})
  set(CMAKE_REQUIRED_QUIET ON)
  check_cxx_source_compiles("
#include <oneapi/dnnl/dnnl.hpp>
#if DNNL_CPU_THREADING_RUNTIME == DNNL_RUNTIME_TBB
#include <tbb/task_arena.h>
#elif DNNL_CPU_THREADING_RUNTIME != DNNL_RUNTIME_OMP && DNNL_CPU_THREADING_RUNTIME != DNNL_RUNTIME_SEQ
#error \"threads that the suite cannot share\"
#endif
int main() {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const dnnl::memory::desc vector({1}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::a);
  return static_cast<int>(dnnl::get_effective_cpu_isa()) + vector.get_inner_nblks();
}" OneDNN_LINKS)
  unset(CMAKE_REQUIRED_LIBRARIES)
  unset(CMAKE_REQUIRED_QUIET)
  if(NOT OneDNN_LINKS)
    set(OneDNN_PROBLEM "A small program does not build with oneDNN ${dnnl_VERSION} in ${dnnl_DIR} \
(threads: ${DNNL_CPU_THREADING_RUNTIME}), perhaps for want of a library that it needs: see \
${CMAKE_BINARY_DIR}/CMakeFiles/CMakeError.log. ${advice}")
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OneDNN REASON_FAILURE_MESSAGE "${OneDNN_PROBLEM}"
                                  REQUIRED_VARS dnnl_DIR OneDNN_LINKS)
if(OneDNN_FOUND AND NOT TARGET OneDNN::OneDNN)
  add_library(OneDNN::OneDNN INTERFACE IMPORTED GLOBAL)
  target_link_libraries(OneDNN::OneDNN INTERFACE ${libraries})
endif()
