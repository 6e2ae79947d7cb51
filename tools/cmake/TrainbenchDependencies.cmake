# Libraries that every build needs. Nothing is ever fetched: a missing one is a package to install.
function(trainbench_require package debian_package)
  find_package(${package} QUIET ${ARGN})
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "${package} was not found. Install it (Debian: ${debian_package}), run "
                        "tools/setup, which installs all, or set ${package}_ROOT to where it is.")
  endif()
endfunction()

macro(trainbench_dependency package debian_package)
  trainbench_require(${package} ${debian_package} ${ARGN})
  find_package(${package} QUIET ${ARGN})
endmacro()

trainbench_dependency(benchmark libbenchmark-dev)
trainbench_dependency(nlohmann_json nlohmann-json3-dev)
trainbench_dependency(CLI11 libcli11-dev)
trainbench_dependency(ZLIB zlib1g-dev)
if(TRAINBENCH_TESTS)
  trainbench_dependency(GTest libgtest-dev)
endif()

# Highway comes without a CMake package in some versions; pkg-config knows it in all.
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(HIGHWAY QUIET IMPORTED_TARGET GLOBAL libhwy)
endif()
if(NOT TARGET PkgConfig::HIGHWAY)
  message(FATAL_ERROR "Highway was not found. Install it (Debian: libhwy-dev and pkg-config), or run "
                      "tools/setup, which installs all.")
endif()
