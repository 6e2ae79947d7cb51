# trainbench_compile: the interface target with which every target of the project compiles.
find_package(Threads REQUIRED)
add_library(trainbench_compile INTERFACE)
target_include_directories(trainbench_compile INTERFACE "${PROJECT_SOURCE_DIR}")
target_compile_options(trainbench_compile INTERFACE -Wall -Wextra -Wconversion -Wshadow)
target_link_libraries(trainbench_compile INTERFACE Threads::Threads)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 warns of overlapping copies in `"literal" + std::string(...)`, which there are none of.
  target_compile_options(trainbench_compile INTERFACE -Wno-restrict)
endif()
if(TRAINBENCH_WERROR)
  target_compile_options(trainbench_compile INTERFACE -Werror)
endif()
if(TRAINBENCH_SANITIZE)
  target_compile_options(trainbench_compile INTERFACE
                         -fsanitize=${TRAINBENCH_SANITIZE} -fno-omit-frame-pointer
                         -fno-sanitize-recover=all)
  target_link_options(trainbench_compile INTERFACE -fsanitize=${TRAINBENCH_SANITIZE})
endif()
