# Finds OpenBLAS in any threading flavour: Debian (libopenblas-dev, -pthread, -openmp or -serial,
# whatever the alternatives system says), Fedora (headers in include/openblas, one library per
# flavour), conda, a prefix of one's own (OpenBLAS_ROOT or CMAKE_PREFIX_PATH).
#
# Defines OpenBLAS_FOUND and OpenBLAS::OpenBLAS, or OpenBLAS_PROBLEM: what was looked for, and what
# to do. A library named openblas that lacks openblas_get_config is another BLAS and is refused.

# cblas.h alone may be the reference BLAS's; openblas_config.h lies beside OpenBLAS's own.
find_path(OpenBLAS_INCLUDE_DIR openblas_config.h
          PATH_SUFFIXES openblas-pthread openblas-openmp openblas-serial openblas
          DOC "Folder with OpenBLAS's cblas.h and openblas_config.h")
# Fedora: openblasp has threads, openblaso OpenMP, openblas neither. The library of the prefix that
# has the headers goes before others.
string(REGEX REPLACE "/include(/.*)?$" "" prefix "${OpenBLAS_INCLUDE_DIR}")
find_library(OpenBLAS_LIBRARY NAMES openblasp openblas openblaso NAMES_PER_DIR
             HINTS "${prefix}"
             PATH_SUFFIXES openblas-pthread openblas-openmp openblas-serial openblas lib64 lib
             DOC "OpenBLAS's library")

set(OpenBLAS_PROBLEM "")
set(advice "Install it (Debian: libopenblas-dev, Fedora: openblas-devel, conda: openblas), or set \
OpenBLAS_ROOT to its prefix, or OpenBLAS_INCLUDE_DIR and OpenBLAS_LIBRARY.")
if(NOT OpenBLAS_INCLUDE_DIR)
  set(OpenBLAS_PROBLEM "Looked for openblas_config.h beside cblas.h, also in folders openblas and \
openblas-{pthread,openmp,serial}, in vain. ${advice}")
elseif(NOT EXISTS "${OpenBLAS_INCLUDE_DIR}/cblas.h")
  set(OpenBLAS_PROBLEM "${OpenBLAS_INCLUDE_DIR} has openblas_config.h, but no cblas.h. ${advice}")
elseif(NOT OpenBLAS_LIBRARY)
  set(OpenBLAS_PROBLEM "Looked for the libraries openblas, openblasp and openblaso in vain. ${advice}")
else()
  include(CheckCXXSourceCompiles)
  find_package(Threads REQUIRED)
  # Other files than those of the last configure run must be checked anew.
  if(NOT OpenBLAS_CHECKED STREQUAL "${OpenBLAS_INCLUDE_DIR};${OpenBLAS_LIBRARY}")
    unset(OpenBLAS_LINKS CACHE)
    set(OpenBLAS_CHECKED "${OpenBLAS_INCLUDE_DIR};${OpenBLAS_LIBRARY}" CACHE INTERNAL "")
  endif()
  set(CMAKE_REQUIRED_INCLUDES "${OpenBLAS_INCLUDE_DIR}")
  set(CMAKE_REQUIRED_LIBRARIES "${OpenBLAS_LIBRARY}" Threads::Threads ${CMAKE_DL_LIBS} m)
  set(CMAKE_REQUIRED_QUIET ON)
  check_cxx_source_compiles("
#include <cblas.h>
int main() {
  float a = 1, c = 0;
  openblas_set_num_threads(1);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, 1, 1, 1, 1, &a, 1, &a, 1, 0, &c, 1);
  cblas_somatcopy(CblasRowMajor, CblasTrans, 1, 1, 1, &a, 1, &c, 1);
  return openblas_get_config() && openblas_get_corename() ? openblas_get_parallel() : 1;
}" OpenBLAS_LINKS)
  unset(CMAKE_REQUIRED_INCLUDES)
  unset(CMAKE_REQUIRED_LIBRARIES)
  unset(CMAKE_REQUIRED_QUIET)
  if(NOT OpenBLAS_LINKS)
    set(OpenBLAS_PROBLEM "A program with cblas_sgemm and openblas_get_config does not build with \
${OpenBLAS_INCLUDE_DIR}/cblas.h and ${OpenBLAS_LIBRARY}, so that is another BLAS, or a broken one. \
${advice}")
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OpenBLAS REASON_FAILURE_MESSAGE "${OpenBLAS_PROBLEM}"
                                  REQUIRED_VARS OpenBLAS_LIBRARY OpenBLAS_INCLUDE_DIR OpenBLAS_LINKS)
if(OpenBLAS_FOUND AND NOT TARGET OpenBLAS::OpenBLAS)
  add_library(OpenBLAS::OpenBLAS UNKNOWN IMPORTED GLOBAL)
  set_target_properties(OpenBLAS::OpenBLAS PROPERTIES
    IMPORTED_LOCATION "${OpenBLAS_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${OpenBLAS_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};m")
endif()
mark_as_advanced(OpenBLAS_INCLUDE_DIR OpenBLAS_LIBRARY)
