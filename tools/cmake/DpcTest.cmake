# Unit tests in GoogleTest, one executable per area:
#   dpc_unit_test(NAME SOURCES... LINK libs... [MLIR])
# Each case is a separate ctest, named NAME.Suite.Case. MLIR: the sources include
# MLIR headers and use the precompiled header.
find_package(GTest REQUIRED)
include(GoogleTest)

function(dpc_unit_test name)
  cmake_parse_arguments(ARG "MLIR" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gtest_main)
  if(ARG_MLIR)
    target_include_directories(${name} SYSTEM PRIVATE ${MLIR_INCLUDE_DIRS}
                                                      ${LLVM_INCLUDE_DIRS})
    target_compile_definitions(${name} PRIVATE ${DPC_LLVM_DEFINITIONS})
    # The precompiled header is position independent code, not -fPIE.
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${name} PRIVATE -fPIC)
    target_precompile_headers(${name} REUSE_FROM dpc_pch)
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                        "${CMAKE_BINARY_DIR}/test/unit/bin")
  # ctest lists the cases when it runs, so that the build need not run tests.
  gtest_discover_tests(${name} TEST_PREFIX "${name}." DISCOVERY_MODE PRE_TEST
                       WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}"
                       PROPERTIES TIMEOUT 300)
endfunction()

# A test written in Python, run with the interpreter of the test environment:
#   dpc_python_test(NAME SCRIPT [ARGS...])
# The script finds the tools through the variables DPC_BIN and DPC_SOURCE, exits
# with 0 when it passes and with 77 when it is skipped.
function(dpc_python_test name script)
  add_test(NAME ${name}
           COMMAND "${DPC_PYTHON}" "${CMAKE_CURRENT_SOURCE_DIR}/${script}"
                   ${ARGN}
           WORKING_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}")
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900
    ENVIRONMENT
    "DPC_BIN=${CMAKE_BINARY_DIR}/bin;DPC_SOURCE=${CMAKE_SOURCE_DIR}")
endfunction()
