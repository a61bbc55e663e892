//===- Strategy.cpp - Strategies and their enumeration --------------------===//

#include "cost-model/Strategy.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cassert>

namespace dpc::cost {

int64_t Strategy::ranks() const { return dp * tp * pp * cp; }

nlohmann::ordered_json strategyToJson(const Strategy &strategy) {
  return {{"dp", strategy.dp},
          {"tp", strategy.tp},
          {"pp", strategy.pp},
          {"vpp", strategy.vpp},
          {"cp", strategy.cp},
          {"cp_kind", strategy.cpKind},
          {"ep", strategy.ep},
          {"sp", strategy.sp},
          {"zero", strategy.zero},
          {"hybrid_shard", strategy.hybridShard},
          {"schedule", strategy.schedule},
          {"recompute", strategy.recompute},
          {"micro_batch", strategy.microBatch},
          {"offload", strategy.offload}};
}

std::string stringifyStrategy(const Strategy &strategy) {
  nlohmann::ordered_json neutral = strategyToJson(Strategy());
  nlohmann::ordered_json all = strategyToJson(strategy);
  std::string text;
  for (const auto &[key, value] : all.items()) {
    bool isAlways = key == "dp" || key == "tp";
    if (!isAlways && value == neutral[key])
      continue;
    text += (text.empty() ? "" : ",") + key + "=";
    text += value.is_string() ? value.get<std::string>() : value.dump();
  }
  return text;
}

/// The micro-batch sizes to try for a local batch, falling.
static std::vector<int64_t> microBatches(std::optional<int64_t> wanted,
                                         int64_t localBatch) {
  if (wanted)
    return {std::clamp<int64_t>(*wanted, 1, localBatch)};
  std::vector<int64_t> sizes;
  for (int64_t size = localBatch; size > 1; size = (size + 1) / 2)
    sizes.push_back(size);
  sizes.push_back(1);
  return sizes;
}

/// ZeRO stages to try on `dp` ranks.
static std::vector<int64_t> zeroStages(const StrategyRequest &request,
                                       const StrategySpace &space, int64_t dp) {
  if (request.zero)
    return {*request.zero};
  return dp == 1 ? std::vector<int64_t>{0} : space.zeros;
}

std::vector<Strategy> enumerateStrategies(const StrategyRequest &request,
                                          const StrategySpace &space) {
  assert(space.ranks >= 1 && space.globalBatch >= 1 && "ranks and samples");
  std::vector<Strategy> strategies;
  for (int64_t tp = 1; tp <= space.ranks; ++tp) {
    int64_t dp = space.ranks / tp;
    bool isWanted = request.tp ? tp == *request.tp : tp <= space.maxTp;
    if (dp * tp != space.ranks || !isWanted ||
        (request.dp && dp != *request.dp))
      continue;
    for (bool sp : {false, true}) {
      // Sequence sharding is over tp: without tp there is nothing to shard.
      bool wanted = tp == 1 ? false : request.sp.value_or(sp);
      bool isTried = request.sp || space.sequenceParallel || !sp;
      if (wanted != sp || !isTried)
        continue;
      int64_t localBatch = (space.globalBatch + dp - 1) / dp;
      for (int64_t zero : zeroStages(request, space, dp))
        for (int64_t size : microBatches(request.microBatch, localBatch)) {
          Strategy strategy;
          strategy.dp = dp;
          strategy.tp = tp;
          strategy.sp = sp;
          strategy.zero = zero;
          strategy.microBatch = size;
          strategies.push_back(strategy);
        }
    }
  }
  return strategies;
}

} // namespace dpc::cost
