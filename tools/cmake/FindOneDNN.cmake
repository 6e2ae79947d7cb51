# Finds oneDNN, any version 3, by its own CMake package, under all names that it has had: dnnl, oneDNN,
# DNNL. A prefix named by dnnl_ROOT (also DNNL_ROOT or oneDNN_ROOT) is the only place looked at. Without
# one: CMAKE_PREFIX_PATH, oneAPI's DNNLROOT, .deps/onednn, where tools/setup puts it, and the system.
#
# Defines OneDNN_FOUND and OneDNN::OneDNN, or OneDNN_PROBLEM: what was found, and what to do.

set(OneDNN_PROBLEM "")
set(advice "Run tools/setup --with-onednn, which installs it into .deps/onednn, or set dnnl_ROOT to the prefix \
of a oneDNN v3 that computes on OpenMP, on TBB or sequentially.")
set(roots ${dnnl_ROOT} $ENV{dnnl_ROOT} ${DNNL_ROOT} $ENV{DNNL_ROOT} ${oneDNN_ROOT} $ENV{oneDNN_ROOT})
if(roots)
  set(places PATHS ${roots} NO_DEFAULT_PATH)
  list(JOIN roots " and " where)
  string(PREPEND where " in ")
else()
  set(places HINTS "${oneDNN_DIR}" "$ENV{DNNLROOT}" "${PROJECT_SOURCE_DIR}/.deps/onednn")
  set(where "")
endif()

# What an earlier configure run found is looked for anew; a dnnl_DIR that was set stays.
if(dnnl_DIR AND dnnl_DIR STREQUAL "${OneDNN_DIR}")
  unset(dnnl_DIR CACHE)
endif()
set(given_dir "${dnnl_DIR}")
# oneDNN's packages end the configure run where a library that they need is missing, so which there are
# is asked for first: with a version that none has, none is loaded, but all are listed.
find_package(dnnl 999 QUIET CONFIG NAMES dnnl oneDNN DNNL ${places})
set(config "")
set(refused "")
foreach(candidate version IN ZIP_LISTS dnnl_CONSIDERED_CONFIGS dnnl_CONSIDERED_VERSIONS)
  if(version MATCHES "^3\\.")
    set(config "${candidate}")
    break()
  endif()
  list(APPEND refused " ${candidate} is version ${version}.")
endforeach()
list(REMOVE_DUPLICATES refused)
list(JOIN refused "" refused)

if(NOT config)
  set(OneDNN_PROBLEM "Looked for the CMake packages dnnl and oneDNN, version 3,${where} in \
vain.${refused} ${advice}")
else()
  get_filename_component(dir "${config}" DIRECTORY)
  get_filename_component(prefix "${dir}/../../.." ABSOLUTE)
  file(READ "${config}" text)
  if(text MATCHES "set\\(DNNL_CPU_THREADING_RUNTIME \"TBB\"\\)")
    find_package(TBB QUIET CONFIG COMPONENTS tbb HINTS "${prefix}")
    if(NOT TBB_FOUND)
      set(OneDNN_PROBLEM "${config} computes on TBB, whose CMake package was not found. Install it \
(Debian: libtbb-dev, PyPI: tbb-devel) or set TBB_ROOT. ${advice}")
    endif()
  endif()
  if(NOT OneDNN_PROBLEM AND text MATCHES "set\\(DNNL_GPU_RUNTIME \"OCL\"\\)")
    find_package(OpenCL QUIET)
    if(NOT OpenCL_FOUND)
      set(OneDNN_PROBLEM "${config} needs OpenCL, which was not found. Install it (Debian: \
ocl-icd-opencl-dev) or set OpenCL_ROOT. ${advice}")
    endif()
  endif()
endif()

if(NOT OneDNN_PROBLEM)
  set(dnnl_DIR "${dir}" CACHE PATH "Folder with oneDNN's CMake package" FORCE)
  if(NOT dir STREQUAL given_dir)
    set(OneDNN_DIR "${dir}" CACHE INTERNAL "Set by the search, not by the user")
  endif()
  find_package(dnnl QUIET CONFIG NAMES dnnl oneDNN DNNL)
  set(libraries DNNL::dnnl)
  if(DNNL_CPU_THREADING_RUNTIME STREQUAL "TBB")
    list(APPEND libraries TBB::tbb)
  endif()
  if(NOT dnnl_FOUND)
    set(OneDNN_PROBLEM "${config} does not load: ${dnnl_NOT_FOUND_MESSAGE} ${advice}")
  elseif(NOT DNNL_CPU_THREADING_RUNTIME MATCHES "^(OMP|TBB|SEQ)$")
    set(OneDNN_PROBLEM "${config} computes on threads that the suite cannot share \
(${DNNL_CPU_THREADING_RUNTIME}). ${advice}")
  endif()
endif()

set(OneDNN_WORKS "")
if(NOT OneDNN_PROBLEM)
  include(CheckCXXSourceRuns)
  set(program "
#include <oneapi/dnnl/dnnl.hpp>
#if DNNL_CPU_THREADING_RUNTIME == DNNL_RUNTIME_TBB
#include <tbb/task_arena.h>
#endif
int main(int argc, char**) {
  if (argc == 9) dnnl::stream(dnnl::engine(dnnl::engine::kind::cpu, 0)).wait();
  const dnnl::memory::desc vector({1}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::a);
  dnnl::get_effective_cpu_isa();
  return vector.get_inner_nblks();
}")
  # Another library than that of the last configure run must be checked anew.
  if(NOT OneDNN_CHECKED STREQUAL "${config};${dnnl_VERSION};${TBB_DIR}")
    unset(OneDNN_RUNS CACHE)
    unset(OneDNN_RUNS_BY_RPATH CACHE)
    set(OneDNN_CHECKED "${config};${dnnl_VERSION};${TBB_DIR}" CACHE INTERNAL "")
  endif()
  set(CMAKE_REQUIRED_LIBRARIES ${libraries})
  set(CMAKE_REQUIRED_QUIET ON)
  check_cxx_source_runs("${program}" OneDNN_RUNS)
  if(NOT OneDNN_RUNS)
    # Libraries beside libdnnl.so, such as libiomp5.so, are found by a program's RPATH, not its RUNPATH.
    set(rpath -Wl,--disable-new-dtags)
    set(CMAKE_REQUIRED_LINK_OPTIONS ${rpath})
    check_cxx_source_runs("${program}" OneDNN_RUNS_BY_RPATH)
    unset(CMAKE_REQUIRED_LINK_OPTIONS)
  else()
    set(rpath "")
  endif()
  unset(CMAKE_REQUIRED_LIBRARIES)
  unset(CMAKE_REQUIRED_QUIET)
  if(OneDNN_RUNS OR OneDNN_RUNS_BY_RPATH)
    set(OneDNN_WORKS ON)
  else()
    set(OneDNN_PROBLEM "A small program does not build and run with oneDNN ${dnnl_VERSION} in ${dir} \
(threads: ${DNNL_CPU_THREADING_RUNTIME}), perhaps for want of a library that it needs: see \
CMakeError.log or CMakeConfigureLog.yaml in ${CMAKE_BINARY_DIR}/CMakeFiles. ${advice}")
    unset(OneDNN_CHECKED CACHE)  # The library may be there the next time.
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OneDNN REASON_FAILURE_MESSAGE "${OneDNN_PROBLEM}"
                                  REQUIRED_VARS dnnl_DIR OneDNN_WORKS)
if(OneDNN_FOUND AND NOT TARGET OneDNN::OneDNN)
  add_library(OneDNN::OneDNN INTERFACE IMPORTED GLOBAL)
  target_link_libraries(OneDNN::OneDNN INTERFACE ${libraries})
  target_link_options(OneDNN::OneDNN INTERFACE ${rpath})
endif()
