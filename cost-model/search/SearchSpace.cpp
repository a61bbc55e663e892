//===- SearchSpace.cpp - The strategies to consider for a model -----------===//
#include "cost-model/search/SearchSpace.h"

#include <algorithm>

namespace dpc::cost {

StrategySpace spaceFor(const ModelTotals &totals, const Cluster &cluster,
                       const std::vector<std::string_view> &available) {
  StrategySpace space;
  space.ranks = cluster.numDevices();
  space.globalBatch = totals.globalBatch;
  auto isMissing = [&](std::string_view key) {
    return [&available, key](auto value) {
      return !isKeyAvailable(key, stringify(value), available);
    };
  };
  if (isKeyAvailable("pp", "", available))
    space.maxPp = totals.layers;
  if (!isKeyAvailable("vpp", "", available) || !totals.training)
    space.maxVpp = 1;
  std::erase_if(space.schedules, [&](ScheduleKind schedule) {
    return schedule != ScheduleKind::OneFOneB &&
           (isMissing("schedule")(schedule) || !totals.training);
  });
  // Small clusters are searched with all their parts (IdleDevices.h).
  constexpr int64_t kAllTried = 16;
  space.idleStages = cluster.numDevices() <= kAllTried;
  if (isKeyAvailable("cp", "", available) && totals.tokensPerSample > 1)
    space.maxCp = cluster.devicesPerNode();
  if (isKeyAvailable("ep", "", available))
    space.experts = totals.experts;
  // On many devices only one ep is considered for each link level.
  constexpr int64_t kFewDevices = 64;
  if (cluster.numDevices() > kFewDevices)
    for (const Level &level : cluster.levels)
      space.expertSpans.push_back(level.span);
  space.grids = std::find(available.begin(), available.end(), "tp=grid") !=
                available.end();
  if (!totals.training)
    return space;
  if (isKeyAvailable("hybrid_shard", "", available))
    space.nodeRanks = cluster.devicesPerNode();
  space.zeros = {0, 1, 3};
  space.offload = isKeyAvailable("offload", "", available);
  space.recomputes = {Recompute::None, Recompute::Selective, Recompute::Full};
  std::erase_if(space.recomputes, [&](Recompute recompute) {
    return recompute != Recompute::None && isMissing("recompute")(recompute);
  });
  return space;
}

} // namespace dpc::cost
