# Backends that exist only to test the suite, and a registry of all. Included by tests/CMakeLists.txt.
add_subdirectory(template_backend)
add_subdirectory(template_fused)
get_property(product_backends GLOBAL PROPERTY TRAINBENCH_BACKENDS)
trainbench_add_registry(trainbench_test_registry ${product_backends} template_backend template_fused)

# bench_layers_bare has rows of bare oneDNN primitives beside those of the onednn backend.
if(TARGET trainbench_onednn)
  add_subdirectory(bare_onednn)
  trainbench_add_registry(trainbench_bare_registry ${product_backends} bare_onednn)
  trainbench_add_program(bench_layers_bare bench_layers trainbench_bare_registry)
endif()

# These tests look at the test backends, too; all others see the product's registry.
set(tests_of_all_backends conformance_test golden_test numeric_cases_test program_test
    trajectory_test)

# The programs once more, over the registry with the test backends: bench_models_template.
foreach(program bench_models bench_layers train)
  trainbench_add_program(${program}_template ${program} trainbench_test_registry)
endforeach()
