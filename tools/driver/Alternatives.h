//===- Alternatives.h - What a plan is compared with ------------*- C++ -*-===//
#ifndef DPC_TOOLS_DRIVER_ALTERNATIVES_H
#define DPC_TOOLS_DRIVER_ALTERNATIVES_H

#include "tools/driver/Compile.h"

namespace dpc {

/// Returns what a free search finds beside the strategy that was asked for, on
/// as many devices; nothing where it finds none.
std::optional<cost::BetterPlan> searchFreely(Session &session,
                                             const Searched &searched);

/// Searches changed clusters and sequences twice as long, for --what-if. What
/// has no plan says why.
std::vector<cost::WhatIf> searchChanges(Session &session,
                                        const Searched &searched);

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_ALTERNATIVES_H
