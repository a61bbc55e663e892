//===- SearchOptions.h - Options of the search ------------------*- C++ -*-===//
#pragma once

#include "tools/cli/CommandLine.h"
#include "tools/driver/CompileOptions.h"

namespace dpc {

/// Adds the options that say what is searched for, for which software, and
/// under which assumptions.
void addSearchOptions(CLI::App &app, CompileOptions &options);

} // namespace dpc
