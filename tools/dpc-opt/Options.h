//===- Options.h - The command line of dpc-opt ------------------*- C++ -*-===//
#ifndef DPC_TOOLS_DPC_OPT_OPTIONS_H
#define DPC_TOOLS_DPC_OPT_OPTIONS_H

#include "tools/driver/CompileOptions.h"

namespace dpc {

/// Parses argv. Returns nullopt if there is nothing to compile: either help was
/// printed (`exitCode` 0), or a word was wrong and an error was printed
/// (`exitCode` 1).
std::optional<CompileOptions> parseOptions(int argc, char **argv,
                                           int &exitCode);

} // namespace dpc

#endif // DPC_TOOLS_DPC_OPT_OPTIONS_H
