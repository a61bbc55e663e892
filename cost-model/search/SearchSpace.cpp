//===- SearchSpace.cpp - The strategies to consider for a model -----------===//
#include "cost-model/search/SearchSpace.h"

#include <algorithm>

namespace dpc::cost {

StrategySpace spaceFor(const ModelTotals &totals, const Cluster &cluster) {
  StrategySpace space;
  space.ranks = cluster.numDevices();
  space.globalBatch = totals.globalBatch;
  space.software = cluster.software;
  // A stage may also be a part of a layer, which shallow models need.
  constexpr int64_t kStages = 4;
  space.maxPp = std::max(totals.layers, kStages);
  bool hasMany = cluster.numDevices() > kManyDevices;
  space.idleStages = !hasMany;
  if (!totals.gemms.empty() && totals.gemms.front().rowsPerSample > 1)
    space.maxCp = cluster.devicesPerNode();
  space.experts = totals.experts;
  // On many devices, only one ep per link level is tried.
  if (hasMany)
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
  if (!hasMany)
    space.zeros = {0, 1, 2, 3};
  space.triesDivisors = !hasMany;
  space.offload = true;
  space.recomputes = {Recompute::None, Recompute::Selective, Recompute::Full};
  return space;
}

} // namespace dpc::cost
