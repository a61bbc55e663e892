# Finds Debian's MLIR 22, and defines functions for all folders that use MLIR:
#   dpc_mlir_library(NAME SOURCES... [DEPENDS targets] [LINK libs])
#   dpc_pass_declarations(NAME)   Passes.h.inc of this folder's Passes.td
# The libraries share one precompiled header, and link the shared libraries of MLIR
# and LLVM. Single MLIR components would bring a second copy of MLIR's registries
# into the process.
# LLVM's version files accept only an exact major.minor, so the major version
# is checked here.
find_package(MLIR CONFIG QUIET HINTS /usr/lib/llvm-22/lib/cmake/mlir)
if(NOT MLIR_FOUND OR NOT LLVM_VERSION_MAJOR EQUAL 22)
  message(FATAL_ERROR "MLIR 22 not found: install libmlir-22-dev mlir-22-tools "
                      "llvm-22-dev (or set MLIR_DIR to a build of MLIR 22)")
endif()
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)
separate_arguments(DPC_LLVM_DEFINITIONS NATIVE_COMMAND "${LLVM_DEFINITIONS}")

# Without a precompiled header, the headers of MLIR take 6 s per file.
add_library(dpc_pch STATIC "${CMAKE_CURRENT_LIST_DIR}/Pch.cpp")
target_include_directories(dpc_pch SYSTEM PUBLIC ${MLIR_INCLUDE_DIRS}
                                                 ${LLVM_INCLUDE_DIRS})
target_compile_definitions(dpc_pch PUBLIC ${DPC_LLVM_DEFINITIONS})
target_precompile_headers(dpc_pch PRIVATE "${CMAKE_CURRENT_LIST_DIR}/Pch.h")

function(dpc_mlir_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES} ${ARG_UNPARSED_ARGUMENTS})
  target_include_directories(${name} SYSTEM PUBLIC ${MLIR_INCLUDE_DIRS}
                                                   ${LLVM_INCLUDE_DIRS})
  target_compile_definitions(${name} PUBLIC ${DPC_LLVM_DEFINITIONS})
  target_precompile_headers(${name} REUSE_FROM dpc_pch)
  target_link_libraries(${name} PUBLIC ${ARG_LINK} MLIR LLVM)
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
endfunction()

# Generates Passes.h.inc with registerNAMEPasses(), in the target NAMEPassesIncGen.
function(dpc_pass_declarations name)
  set(LLVM_TARGET_DEFINITIONS Passes.td)
  mlir_tablegen(Passes.h.inc -gen-pass-decls -name=${name})
  add_public_tablegen_target(${name}PassesIncGen)
endfunction()
