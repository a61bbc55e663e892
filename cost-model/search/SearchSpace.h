//===- SearchSpace.h - The strategies to consider for a model ---*- C++ -*-===//
#pragma once

#include "cost-model/machine/Cluster.h"
#include "cost-model/search/Evaluation.h"

namespace dpc::cost {

/// Returns the strategies to consider for a model on a cluster: pipelines up to
/// one layer per chunk, all schedules, context parallelism over the ranks of a
/// node, tensor grids, expert parallelism and, for training, ZeRO stages,
/// recompute and offloading.
StrategySpace spaceFor(const ModelTotals &totals, const Cluster &cluster);

} // namespace dpc::cost
