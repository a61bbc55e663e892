//===- Options.h - the command line of dpc-run ------------------*- C++ -*-===//
#ifndef DPC_TOOLS_DPC_RUN_OPTIONS_H
#define DPC_TOOLS_DPC_RUN_OPTIONS_H

#include "runtime/job/RunOptions.h"

namespace dpc {

/// Parses the command line. Returns false after printing help or an error; then
/// `exitCode` is the exit code.
bool parseOptions(int argc, char **argv, RunOptions &options, int &exitCode);

} // namespace dpc

#endif // DPC_TOOLS_DPC_RUN_OPTIONS_H
