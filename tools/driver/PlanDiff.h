//===- PlanDiff.h - Differences between two plans ---------------*- C++ -*-===//
#ifndef DPC_TOOLS_DRIVER_PLANDIFF_H
#define DPC_TOOLS_DRIVER_PLANDIFF_H

#include "runtime/base/Status.h"

#include <filesystem>
#include <string>

namespace dpc {

/// The differences between the chosen plans of two folders with a report.json
/// (or two such files): keys of the strategy, predictions, memory by category,
/// bytes by level and collective, and splits of operators. An error is one line
/// about a missing report or a report without a plan.
Expected<std::string> diffOfPlans(const std::filesystem::path &before,
                                  const std::filesystem::path &after);

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_PLANDIFF_H
