//===- JobAnswers.h - --tokens, --deadline and several clusters -*- C++ -*-===//
#pragma once

#include "cost-model/report/Intervals.h"
#include "cost-model/report/JobCost.h"
#include "tools/driver/Compile.h"

namespace dpc {

/// Returns the cost of the job on the given cluster, or nothing without
/// --tokens or a winner. `intervals` may be null, here and below.
std::optional<cost::JobCost> jobCostOf(const CompileOptions &options,
                                       const Searched &searched,
                                       const cost::Intervals *intervals);

/// Searches on all clusters of --cluster. Returns an answer for each, the first
/// one first, or nothing if there is only one cluster.
std::vector<cost::ClusterAnswer>
compareClusters(Session &session, const Searched &searched,
                const cost::Intervals *intervals);

/// Searches the smallest number of nodes of the first cluster's kind that
/// meets --deadline: fewer nodes, or up to 16 times as many.
std::optional<cost::DeadlineAnswer>
searchDeadline(Session &session, const Searched &searched,
               const cost::Intervals *intervals);

} // namespace dpc
