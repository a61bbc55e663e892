//===- Strategy.cpp - Strategies and their combinations -------------------===//

#include "cost-model/strategy/Strategy.h"
#include "cost-model/strategy/BatchShares.h"

#include <nlohmann/json.hpp>

namespace dpc::cost {

int64_t Strategy::ranks() const { return dp * tp * pp * cp; }

int64_t Strategy::microBatches(int64_t globalBatch) const {
  int64_t local = (globalBatch + dp - 1) / dp;
  return microBatch > 0 ? (local + microBatch - 1) / microBatch : 1;
}

static nlohmann::ordered_json tpToJson(const Strategy &strategy) {
  if (strategy.tpGrid.empty())
    return strategy.tp;
  std::string text;
  for (int64_t factor : strategy.tpGrid)
    text += (text.empty() ? "" : "x") + std::to_string(factor);
  return text;
}

nlohmann::ordered_json strategyToJson(const Strategy &strategy) {
  return {{"dp", strategy.dp},
          {"tp", tpToJson(strategy)},
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
          {"offload", strategy.offload},
          {"offload_to", strategy.offloadTo},
          {"placement", strategy.placement},
          {"batch_shares", strategy.batchShares}};
}

std::string differenceOf(const Strategy &from, const Strategy &to) {
  nlohmann::ordered_json before = strategyToJson(from);
  nlohmann::ordered_json after = strategyToJson(to);
  std::string text;
  auto print = [](const nlohmann::ordered_json &value) {
    return value.is_string() ? value.get<std::string>() : value.dump();
  };
  for (const auto &[key, value] : after.items())
    if (value != before[key])
      text += (text.empty() ? "" : ", ") + key + " " + print(before[key]) +
              " -> " + print(value);
  return text;
}

/// Whether a key that is no degree has any effect beside the others.
static bool hasEffect(const std::string &key, const Strategy &strategy) {
  if (key == "cp_kind")
    return strategy.cp > 1;
  if (key == "schedule")
    return strategy.pp > 1;
  if (key == "sp")
    return strategy.tp > 1;
  if (key == "offload_to")
    return strategy.offload != "none";
  return true;
}

std::string stringifyStrategy(const Strategy &strategy) {
  nlohmann::ordered_json neutral = strategyToJson(Strategy());
  nlohmann::ordered_json all = strategyToJson(strategy);
  std::string text;
  for (const auto &[key, value] : all.items()) {
    // Without its kind, a split of the sequence is searched for the best one.
    bool isAlways = key == "dp" || key == "tp" || key == "cp_kind";
    if (!hasEffect(key, strategy) || (!isAlways && value == neutral[key]))
      continue;
    text += (text.empty() ? "" : ",") + key + "=";
    text += value.is_string() ? value.get<std::string>() : value.dump();
  }
  return text;
}

std::string stringifyStrategy(const Strategy &strategy, int64_t devices) {
  std::string text = stringifyStrategy(strategy);
  if (strategy.ranks() != devices)
    text += ",ranks=" + std::to_string(strategy.ranks());
  return text;
}

//===----------------------------------------------------------------------===//
// Combinations
//===----------------------------------------------------------------------===//

static Error contradiction(const std::string &text) {
  return Error{"--strategy: " + text};
}

static Status checkChunks(const StrategyRequest &request) {
  if (request.vpp.value_or(1) == 1)
    return Status();
  std::string named = "vpp=" + std::to_string(*request.vpp);
  if (request.pp == 1)
    return contradiction(named + " needs pp > 1: chunks lie on pipeline stages "
                                 "in turn; expected vpp=1 or more stages");
  if (request.schedule && *request.schedule != "interleaved")
    return contradiction(
        named + " needs schedule=interleaved: schedule=" + *request.schedule +
        " has one chunk per stage; expected vpp=1");
  return Status();
}

static Status checkHybridShard(const StrategyRequest &request) {
  if (request.hybridShard.value_or(1) == 1)
    return Status();
  std::string named = "hybrid_shard=" + std::to_string(*request.hybridShard);
  if (request.dp && *request.dp % *request.hybridShard != 0)
    return contradiction(named +
                         " does not divide dp=" + std::to_string(*request.dp) +
                         "; expected a divisor: ZeRO splits over that many "
                         "data-parallel ranks");
  if (request.zero == 0)
    return contradiction(named +
                         " needs zero=1, 2 or 3: zero=0 splits nothing");
  return Status();
}

static Status checkExperts(const StrategyRequest &request) {
  if (request.ep.value_or(1) == 1)
    return Status();
  std::string named = "ep=" + std::to_string(*request.ep);
  if (!request.dp || !request.tp)
    return Status();
  // Where dp alone does not suffice, all of tp takes part.
  int64_t data = *request.ep;
  if (*request.dp % data != 0 && data % *request.tp == 0)
    data /= *request.tp;
  if (*request.dp % data != 0)
    return contradiction(
        named + " does not fit dp=" + std::to_string(*request.dp) +
        ",tp=" + std::to_string(*request.tp) +
        "; expected a divisor of dp, or tp times one: the ranks that share "
        "experts");
  int64_t shared = request.hybridShard.value_or(1);
  if (shared > 1 && shared % data != 0)
    return contradiction(
        named + " does not fit hybrid_shard=" + std::to_string(shared) +
        "; expected a divisor: the data-parallel ranks that "
        "share experts are among those that share states");
  return Status();
}

static Status checkShares(const StrategyRequest &request) {
  if (!request.batchShares || !sharesUnevenly(*request.batchShares))
    return Status();
  std::string named = "batch_shares=" + *request.batchShares;
  std::string together = ": ranks meet in every micro-batch, and have unlike "
                         "numbers of them";
  if (request.zero.value_or(0) > 1)
    return contradiction(named + " needs zero=0 or 1" + together);
  if (request.ep.value_or(1) > 1)
    return contradiction(named + " needs ep=1" + together);
  int64_t count =
      static_cast<int64_t>(parseBatchShares(*request.batchShares)->size());
  if (request.dp && *request.dp % count != 0)
    return contradiction(named +
                         " does not fit dp=" + std::to_string(*request.dp) +
                         "; expected as many numbers as a divisor of dp");
  return Status();
}

Status checkCombination(const StrategyRequest &request) {
  for (auto *check : {checkChunks, checkHybridShard, checkExperts, checkShares})
    if (Status status = check(request); !status)
      return status;
  return Status();
}

bool StrategyRequest::allows(const Strategy &strategy,
                             int64_t globalBatch) const {
  int64_t local = (globalBatch + strategy.dp - 1) / strategy.dp;
  auto agrees = [](const auto &wanted, const auto &value) {
    return !wanted || *wanted == value;
  };
  return agrees(dp, strategy.dp) && agrees(tp, strategy.tp) &&
         (tpGrid.empty() || tpGrid == strategy.tpGrid) &&
         agrees(pp, strategy.pp) && agrees(vpp, strategy.vpp) &&
         agrees(cp, strategy.cp) && agrees(cpKind, strategy.cpKind) &&
         agrees(ep, strategy.ep) && agrees(sp, strategy.sp) &&
         agrees(zero, strategy.zero) &&
         agrees(hybridShard, strategy.hybridShard) &&
         agrees(schedule, strategy.schedule) &&
         agrees(recompute, strategy.recompute) &&
         (!microBatch || std::min(*microBatch, local) == strategy.microBatch) &&
         agrees(offload, strategy.offload) &&
         agrees(offloadTo, strategy.offloadTo) &&
         agrees(placement, strategy.placement) &&
         agrees(batchShares, strategy.batchShares) &&
         agrees(ranks, strategy.ranks()) && (!accepts || accepts(strategy));
}

} // namespace dpc::cost
