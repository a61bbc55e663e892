//===- SearchSpace.cpp - The strategies to consider for a model -----------===//
#include "cost-model/search/SearchSpace.h"

namespace dpc::cost {

StrategySpace spaceFor(const ModelTotals &totals, const Cluster &cluster) {
  StrategySpace space;
  space.ranks = cluster.numDevices();
  space.globalBatch = totals.globalBatch;
  space.software = cluster.software;
  space.maxPp = totals.layers;
  // All parts of a cluster of this size are searched (IdleDevices.h).
  constexpr int64_t kAllTried = 16;
  space.idleStages = cluster.numDevices() <= kAllTried;
  if (totals.gemmRowsPerSample > 1)
    space.maxCp = cluster.devicesPerNode();
  space.experts = totals.experts;
  // Above this number of devices, only one ep per link level is tried.
  constexpr int64_t kFewDevices = 64;
  if (cluster.numDevices() > kFewDevices)
    for (const Level &level : cluster.levels)
      space.expertSpans.push_back(level.span);
  space.grids = true;
  if (!totals.training) {
    space.maxVpp = 1;
    space.schedules = {ScheduleKind::OneFOneB};
    return space;
  }
  space.nodeRanks = cluster.devicesPerNode();
  space.zeros = {0, 1, 3};
  // With several micro-batches, ZeRO 2 needs less memory than ZeRO 1 and more
  // time. On many devices, other keys save as much memory.
  if (cluster.numDevices() <= kFewDevices)
    space.zeros = {0, 1, 2, 3};
  space.triesDivisors = cluster.numDevices() <= kFewDevices;
  space.offload = true;
  space.recomputes = {Recompute::None, Recompute::Selective, Recompute::Full};
  return space;
}

} // namespace dpc::cost
