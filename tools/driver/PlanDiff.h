//===- PlanDiff.h - Differences between two plans ---------------*- C++ -*-===//
#pragma once

#include "runtime/base/Status.h"

#include <filesystem>
#include <string>

namespace dpc {

/// Compares the chosen plans of two folders with a report.json (or of two such
/// files): keys of the strategy, predictions, memory by category, bytes by
/// level and collective, and splits of operators. Returns a one-line error if a
/// report or its plan is missing.
Expected<std::string> diffOfPlans(const std::filesystem::path &before,
                                  const std::filesystem::path &after);

} // namespace dpc
