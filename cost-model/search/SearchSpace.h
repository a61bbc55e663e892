//===- SearchSpace.h - The strategies to consider for a model ---*- C++ -*-===//
#pragma once

#include "cost-model/machine/Cluster.h"
#include "cost-model/search/Evaluation.h"

namespace dpc::cost {

/// On clusters with at most this many devices, all parts are tried
/// (IdleDevices.h).
inline constexpr int64_t kFewDevices = 16;

/// On clusters with more devices than this, fewer strategies are considered and
/// evaluated, because there are many strategies and many parts. On others,
/// pipelines may have fewer micro-batches than stages.
inline constexpr int64_t kManyDevices = 64;

/// Returns the strategies to consider for a model on a cluster: pipelines up to
/// one layer per chunk, all schedules, context parallelism over the ranks of a
/// node, tensor grids, expert parallelism and, for training, ZeRO stages,
/// recompute and offloading.
StrategySpace spaceFor(const ModelTotals &totals, const Cluster &cluster);

} // namespace dpc::cost
