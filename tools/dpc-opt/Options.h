//===- Options.h - The command line of dpc-opt ------------------*- C++ -*-===//
#ifndef DPC_TOOLS_DPC_OPT_OPTIONS_H
#define DPC_TOOLS_DPC_OPT_OPTIONS_H

#include "tools/driver/CompileOptions.h"

namespace dpc {

/// Parses argv. Nullopt when there is nothing to compile: help was printed
/// (`exitCode` 0) or a word was wrong and one line on stderr says so (1).
std::optional<CompileOptions> parseOptions(int argc, char **argv,
                                           int &exitCode);

} // namespace dpc

#endif // DPC_TOOLS_DPC_OPT_OPTIONS_H
