//===- Options.h - the command line of dpc-run ------------------*- C++ -*-===//
#pragma once

#include "runtime/job/RunOptions.h"

namespace dpc {

/// Parses the command line. Returns false after printing help or an error; then
/// `exitCode` is the exit code.
bool parseOptions(int argc, char **argv, RunOptions &options, int &exitCode);

} // namespace dpc
