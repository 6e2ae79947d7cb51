# A program with rows and backends of its own, to test the frame that all programs share.
add_executable(harness_program harness_program.cpp)
target_link_libraries(harness_program PRIVATE trainbench_harness)
set_target_properties(harness_program PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
