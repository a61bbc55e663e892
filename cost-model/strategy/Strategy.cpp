//===- Strategy.cpp - Strategies and their combinations -------------------===//

#include "cost-model/strategy/Strategy.h"

#include <nlohmann/json.hpp>

namespace dpc::cost {

static const Strategy neutralStrategy;

int64_t Strategy::ranks() const { return dp * tp * pp * cp; }

int64_t Strategy::microBatches(int64_t globalBatch) const {
  int64_t local = (globalBatch + dp - 1) / dp;
  return microBatch > 0 ? (local + microBatch - 1) / microBatch : 1;
}

/// Numbers and booleans are unchanged; all other values become text.
template <typename T> static nlohmann::ordered_json toJson(const T &value) {
  if constexpr (std::is_arithmetic_v<T>)
    return value;
  if constexpr (std::is_same_v<T, TensorDegree>)
    if (value.grid.empty())
      return value.ranks;
  return printValue(value);
}

nlohmann::ordered_json strategyToJson(const Strategy &strategy) {
  nlohmann::ordered_json json;
  visitKeys([&](const KeyInfo &key, auto field) {
    json[std::string(key.name)] = toJson(field(strategy));
  });
  return json;
}

std::string differenceOf(const Strategy &from, const Strategy &to) {
  std::string text;
  visitKeys([&](const KeyInfo &key, auto field) {
    if (!(field(from) == field(to)))
      text += (text.empty() ? "" : ", ") + std::string(key.name) + " " +
              printValue(field(from)) + " -> " + printValue(field(to));
  });
  return text;
}

bool hasEffect(const KeyInfo &key, const Strategy &strategy) {
  bool result = true;
  visitKeys([&](const KeyInfo &other, auto field) {
    if (other.name == key.needs)
      result = !(field(strategy) == field(neutralStrategy));
  });
  return result;
}

std::string stringifyStrategy(const Strategy &strategy) {
  std::string text;
  visitKeys([&](const KeyInfo &key, auto field) {
    bool isNeutral = field(strategy) == field(neutralStrategy);
    if ((key.isAlwaysPrinted || !isNeutral) && hasEffect(key, strategy))
      text += (text.empty() ? "" : ",") + std::string(key.name) + "=" +
              printValue(field(strategy));
  });
  return text;
}

nlohmann::ordered_json keysToJson() {
  nlohmann::ordered_json keys;
  visitKeys([&](const KeyInfo &key, auto field) {
    keys.push_back({{"name", key.name},
                    {"neutral", toJson(field(neutralStrategy))},
                    {"needs", key.needs},
                    {"printed", key.isAlwaysPrinted}});
  });
  return keys;
}

std::string describeKeys() {
  std::string text;
  visitKeys([&](const KeyInfo &key, auto field) {
    using T = std::decay_t<decltype(field(neutralStrategy))>;
    std::string usage = std::string(key.name) + "=" + describeValues<T>(key);
    constexpr size_t kColumn = 46;
    usage.resize(std::max(usage.size() + 2, kColumn), ' ');
    text += "  " + usage + std::string(key.help) + "\n";
  });
  return text;
}

std::string stringifyStrategy(const Strategy &strategy, int64_t devices) {
  std::string text = stringifyStrategy(strategy);
  if (strategy.ranks() != devices)
    text += ",ranks=" + std::to_string(strategy.ranks());
  return text;
}

static Error contradiction(const std::string &text) {
  return Error{"--strategy: " + text};
}

static Status checkChunks(const StrategyRequest &request) {
  if (request.vpp.value_or(1) == 1)
    return Status();
  std::string named = "vpp=" + std::to_string(*request.vpp);
  if (request.pp == 1)
    return contradiction(named +
                         " needs pp > 1: chunks alternate between "
                         "pipeline stages; expected vpp=1 or more stages");
  if (request.schedule && !hasChunks(*request.schedule))
    return contradiction(named + " needs schedule=interleaved: schedule=" +
                         printValue(*request.schedule) +
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
                         "; expected a divisor, the number of data-parallel "
                         "ranks that ZeRO shards over");
  if (request.zero == 0)
    return contradiction(named +
                         " needs zero=1, 2 or 3: zero=0 shards nothing");
  return Status();
}

static Status checkExperts(const StrategyRequest &request) {
  if (request.ep.value_or(1) == 1)
    return Status();
  std::string named = "ep=" + std::to_string(*request.ep);
  if (!request.dp || !request.tp)
    return Status();
  // If ep does not divide dp, ep spans all of tp.
  int64_t data = *request.ep;
  if (*request.dp % data != 0 && data % *request.tp == 0)
    data /= *request.tp;
  if (*request.dp % data != 0)
    return contradiction(named +
                         " does not fit dp=" + std::to_string(*request.dp) +
                         ",tp=" + std::to_string(*request.tp) +
                         "; expected a divisor of dp, or tp times a divisor of "
                         "dp");
  int64_t shared = request.hybridShard.value_or(1);
  if (shared > 1 && shared % data != 0)
    return contradiction(
        named + " does not fit hybrid_shard=" + std::to_string(shared) +
        "; expected a divisor, because the data-parallel ranks that "
        "share experts must also share optimizer states");
  return Status();
}

static Status checkShares(const StrategyRequest &request) {
  if (!request.batchShares || !request.batchShares->isUneven())
    return Status();
  std::string named = "batch_shares=" + printValue(*request.batchShares);
  std::string together = ", because ranks with different numbers of "
                         "micro-batches cannot synchronize after each of them";
  if (request.zero.value_or(0) > 1)
    return contradiction(named + " needs zero=0 or 1" + together);
  if (request.ep.value_or(1) > 1)
    return contradiction(named + " needs ep=1" + together);
  auto count = static_cast<int64_t>(request.batchShares->ratios.size());
  if (request.dp && *request.dp % count != 0)
    return contradiction(named +
                         " does not fit dp=" + std::to_string(*request.dp) +
                         "; expected a divisor of dp as the number of ratios");
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
  auto agrees = [&](const KeyInfo &key, const auto &wanted, const auto &value) {
    using T = std::decay_t<decltype(value)>;
    // tp=8 allows every grid of 8 ranks.
    if constexpr (std::is_same_v<T, TensorDegree>)
      return wanted.ranks == value.ranks &&
             (wanted.grid.empty() || wanted.grid == value.grid);
    else if constexpr (std::is_same_v<T, int64_t>)
      return (key.name == "micro_batch" ? std::min(wanted, local) : wanted) ==
             value;
    else
      return wanted == value;
  };
  bool allowed = true;
  visitKeys([&](const KeyInfo &key, auto field) {
    const auto &wanted = field(*this);
    allowed &= !wanted || agrees(key, *wanted, field(strategy));
  });
  return allowed && (!ranks || *ranks == strategy.ranks()) &&
         (!accepts || accepts(strategy));
}

} // namespace dpc::cost
