# Finds the header libraries of the runtime and dpc-run: the installed ones, or those
# in the folder DPC_HEADERS (nlohmann/, CLI/, xxhash.h and xxh3.h).
set(DPC_HEADERS "" CACHE PATH "Folder with nlohmann/, CLI/, xxhash.h and xxh3.h")
if(NOT DPC_HEADERS)
  find_package(nlohmann_json REQUIRED)
  find_package(CLI11 REQUIRED)
  return()
endif()
add_library(dpc_headers INTERFACE)
target_include_directories(dpc_headers SYSTEM INTERFACE "${DPC_HEADERS}")
add_library(nlohmann_json::nlohmann_json ALIAS dpc_headers)
add_library(CLI11::CLI11 ALIAS dpc_headers)
