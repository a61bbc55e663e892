//===- Alternatives.h - Plans to compare the winner with --------*- C++ -*-===//
#ifndef DPC_TOOLS_DRIVER_ALTERNATIVES_H
#define DPC_TOOLS_DRIVER_ALTERNATIVES_H

#include "tools/driver/Compile.h"

namespace dpc {

/// Returns the better plan that an unrestricted search finds on as many devices
/// as the given strategy uses, if there is one.
std::optional<cost::BetterPlan> searchFreely(Session &session,
                                             const Searched &searched);

/// Searches for changed clusters and for sequences of twice the length
/// (--what-if). An answer without a plan says why.
std::vector<cost::WhatIf> searchChanges(Session &session,
                                        const Searched &searched);

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_ALTERNATIVES_H
