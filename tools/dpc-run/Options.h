//===- Options.h - The command line of dpc-run ------------------*- C++ -*-===//
#ifndef DPC_TOOLS_DPC_RUN_OPTIONS_H
#define DPC_TOOLS_DPC_RUN_OPTIONS_H

#include "runtime/job/RunOptions.h"

namespace dpc {

/// Parses argv. Returns true to go on; else `exitCode` is what to exit with
/// (help or the error was printed).
bool parseOptions(int argc, char **argv, RunOptions &options, int &exitCode);

} // namespace dpc

#endif // DPC_TOOLS_DPC_RUN_OPTIONS_H
