//===- PlanDiff.h - What changes from one plan to another -------*- C++ -*-===//
#ifndef DPC_TOOLS_DRIVER_PLANDIFF_H
#define DPC_TOOLS_DRIVER_PLANDIFF_H

#include "runtime/base/Status.h"

#include <filesystem>
#include <string>

namespace dpc {

/// What is unlike in the chosen plans of two folders with a report.json (or two
/// such files): keys of the strategy, predictions, memory by category, bytes by
/// level and collective, operators that are split otherwise. One line on a
/// folder without a report, or a report without a plan.
Expected<std::string> diffOfPlans(const std::filesystem::path &before,
                                  const std::filesystem::path &after);

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_PLANDIFF_H
