//===- RankLoads.h - how full the ranks of experts are ----------*- C++ -*-===//
#pragma once

#include "runtime/exec/Session.h"
#include "runtime/observe/Metrics.h"

namespace dpc::rt {

/// Adds to `report`, if ranks have tiles of experts: `fullest_rank`, the most
/// rows that a rank computed in the steps since the last call, relative to the
/// mean, and `expert_tiles`, the most tiles or rounds of exchange of a rank.
/// All processes call this; only the report of the process of rank 0 changes.
Status addRankLoads(const Plan &plan, Session &session, StepReport &report);

} // namespace dpc::rt
