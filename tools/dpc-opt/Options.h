//===- Options.h - The command line of dpc-opt ------------------*- C++ -*-===//
#pragma once

#include "tools/driver/CompileOptions.h"

namespace dpc {

/// Parses the command line. Returns nullopt after printing help (`exitCode` 0)
/// or an error (`exitCode` 1).
std::optional<CompileOptions> parseOptions(int argc, char **argv,
                                           int &exitCode);

} // namespace dpc
