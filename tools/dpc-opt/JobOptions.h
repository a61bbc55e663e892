//===- JobOptions.h - Options of the whole job ------------------*- C++ -*-===//
#pragma once

#include "tools/cli/CommandLine.h"
#include "tools/driver/CompileOptions.h"

namespace dpc {

/// Adds --tokens, --price, --deadline and the options of failures.
void addJobOptions(CLI::App &app, CompileOptions &o,
                   std::vector<double> &prices);

/// Sets the clusters and their prices. Throws a CLI::Error if the numbers of
/// clusters and prices differ.
void finishClusters(CompileOptions &o, const std::vector<std::string> &clusters,
                    const std::vector<double> &prices);

/// Throws a CLI::Error for options that need --tokens, or a report.
void finishJob(const CompileOptions &o);

} // namespace dpc
