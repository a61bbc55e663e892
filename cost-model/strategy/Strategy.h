//===- Strategy.h - Degrees of parallelism as the user names them -*- C++ -*-=//
#ifndef DPC_COST_MODEL_STRATEGY_STRATEGY_H
#define DPC_COST_MODEL_STRATEGY_STRATEGY_H

#include "cost-model/strategy/KeyValues.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace dpc::cost {

/// In a strategy a key has a value, in a request it may have one.
template <typename T> using Always = T;

/// One field for each key of `--strategy`. `Of<T>` is T in a Strategy, whose
/// initial values are neutral, and std::optional<T> in a StrategyRequest, which
/// begins without values. `kKeys` is the one list of them, from which
/// parsing, printing, JSON, comparison and --help follow.
template <template <typename> typename Of> struct StrategyKeys {
  template <typename T> static constexpr Of<T> neutral(T value) {
    if constexpr (std::is_same_v<Of<T>, T>)
      return value;
    else
      return std::nullopt;
  }

  Of<int64_t> dp = neutral<int64_t>(1);
  Of<TensorDegree> tp = neutral(TensorDegree());
  Of<int64_t> pp = neutral<int64_t>(1);
  Of<int64_t> vpp = neutral<int64_t>(1);
  Of<int64_t> cp = neutral<int64_t>(1);
  Of<CpKind> cpKind = neutral(CpKind::Ring);
  /// Ranks that share the experts: a divisor of dp, or tp times one.
  Of<int64_t> ep = neutral<int64_t>(1);
  Of<bool> sp = neutral(false);
  Of<int64_t> zero = neutral<int64_t>(0);
  /// ZeRO shards over this many neighboring data-parallel ranks; 1 = all dp.
  Of<int64_t> hybridShard = neutral<int64_t>(1);
  Of<ScheduleKind> schedule = neutral(ScheduleKind::OneFOneB);
  Of<Recompute> recompute = neutral(Recompute::None);
  /// Samples per micro-batch on one data-parallel rank; 0 = the whole local
  /// batch.
  Of<int64_t> microBatch = neutral<int64_t>(0);
  Of<Offload> offload = neutral(Offload::None);
  Of<OffloadTarget> offloadTo = neutral(OffloadTarget::Host);
  Of<PlacementSpec> placement = neutral(PlacementSpec());
  Of<BatchShares> batchShares = neutral(BatchShares());

  bool operator==(const StrategyKeys &) const = default;
};

/// One complete strategy: a value for every key.
struct Strategy : StrategyKeys<Always> {
  /// dp * tp * pp * cp: the ranks it needs. (ep is part of dp x tp.)
  int64_t ranks() const;
  /// Micro-batches of a step of `globalBatch` samples.
  int64_t microBatches(int64_t globalBatch) const;
  bool operator==(const Strategy &) const = default;
};

/// A key: its properties, and its member of a Strategy or StrategyRequest.
template <typename Field> struct Key {
  KeyInfo info;
  Field field;
};
template <typename Field> Key(KeyInfo, Field) -> Key<Field>;

/// All keys, in the order of report.json.
inline constexpr std::tuple kKeys = {
    Key{KeyInfo{.name = "dp",
                .help = "data-parallel ranks",
                .group = KeyGroup::Degrees,
                .isAlwaysPrinted = true},
        [](auto &keys) -> auto & { return keys.dp; }},
    Key{KeyInfo{.name = "tp",
                .help = "tensor-parallel ranks",
                .group = KeyGroup::Degrees,
                .isOfLayer = true,
                .isAlwaysPrinted = true},
        [](auto &keys) -> auto & { return keys.tp; }},
    Key{KeyInfo{.name = "pp",
                .help = "pipeline stages",
                .group = KeyGroup::Degrees},
        [](auto &keys) -> auto & { return keys.pp; }},
    Key{KeyInfo{.name = "vpp",
                .help = "model chunks per pipeline stage",
                .group = KeyGroup::Schedule},
        [](auto &keys) -> auto & { return keys.vpp; }},
    Key{KeyInfo{.name = "cp",
                .help = "ranks that share a sequence",
                .group = KeyGroup::Degrees,
                .isOfLayer = true},
        [](auto &keys) -> auto & { return keys.cp; }},
    Key{KeyInfo{.name = "cp_kind",
                .help = "how attention works where cp > 1",
                .group = KeyGroup::Degrees,
                .needs = "cp",
                .isOfLayer = true,
                .isAlwaysPrinted = true,
                .staysOpen = true},
        [](auto &keys) -> auto & { return keys.cpKind; }},
    Key{KeyInfo{.name = "ep",
                .help = "ranks that share the experts",
                .group = KeyGroup::Degrees,
                .isOfLayer = true},
        [](auto &keys) -> auto & { return keys.ep; }},
    Key{KeyInfo{.name = "sp",
                .help = "shard activations along the sequence over tp",
                .group = KeyGroup::Sequence,
                .needs = "tp",
                .isOfLayer = true},
        [](auto &keys) -> auto & { return keys.sp; }},
    Key{KeyInfo{.name = "zero",
                .help = "ZeRO stage",
                .group = KeyGroup::States,
                .least = 0,
                .most = 3,
                .isOfLayer = true},
        [](auto &keys) -> auto & { return keys.zero; }},
    Key{KeyInfo{.name = "hybrid_shard",
                .help = "data-parallel ranks that ZeRO shards over",
                .group = KeyGroup::States},
        [](auto &keys) -> auto & { return keys.hybridShard; }},
    Key{KeyInfo{.name = "schedule",
                .help = "order of micro-batches where pp > 1",
                .group = KeyGroup::Schedule,
                .needs = "pp"},
        [](auto &keys) -> auto & { return keys.schedule; }},
    Key{KeyInfo{.name = "recompute",
                .help = "activations that the backward pass recomputes",
                .group = KeyGroup::Recompute,
                .isOfLayer = true},
        [](auto &keys) -> auto & { return keys.recompute; }},
    Key{KeyInfo{.name = "micro_batch",
                .help = "samples of a micro-batch on one rank",
                .group = KeyGroup::MicroBatch,
                .staysOpen = true},
        [](auto &keys) -> auto & { return keys.microBatch; }},
    Key{KeyInfo{.name = "offload",
                .help = "what leaves the device's memory between uses",
                .group = KeyGroup::Offload,
                .isOfLayer = true},
        [](auto &keys) -> auto & { return keys.offload; }},
    Key{KeyInfo{.name = "offload_to",
                .help = "where offloaded tensors are stored",
                .group = KeyGroup::Offload,
                .needs = "offload",
                .isOfLayer = true},
        [](auto &keys) -> auto & { return keys.offloadTo; }},
    Key{KeyInfo{.name = "placement",
                .help = "mesh axes on neighboring devices",
                .group = KeyGroup::Placement,
                .staysOpen = true},
        [](auto &keys) -> auto & { return keys.placement; }},
    Key{KeyInfo{.name = "batch_shares",
                .help = "each data-parallel rank's share of the batch",
                .group = KeyGroup::BatchShares,
                .staysOpen = true},
        [](auto &keys) -> auto & { return keys.batchShares; }}};

/// Calls `visit(info, field)` for every key.
template <typename Visit> void visitKeys(Visit &&visit) {
  std::apply([&](const auto &...key) { (visit(key.info, key.field), ...); },
             kKeys);
}

/// Whether `key` has an effect in `strategy` (KeyInfo::needs).
bool hasEffect(const KeyInfo &key, const Strategy &strategy);

/// The properties of all keys that the HTML report needs: a list of {"name",
/// "neutral", "needs", "printed"}.
nlohmann::ordered_json keysToJson();

/// A line for each key: its name, its values, what it says.
std::string describeKeys();

/// Schedules have an entry per micro-batch: more of them than any step needs
/// are refused before they take memory and time.
inline constexpr int64_t kMaxMicroBatches = 65'536;

/// The keys that name it to --strategy, e.g. "dp=2,tp=2x2": dp and tp always,
/// cp_kind where cp > 1, others that have an effect and are not neutral.
std::string stringifyStrategy(const Strategy &strategy);

/// As it is asked for on a cluster of `devices`: with "ranks=" where it takes
/// only some of them.
std::string stringifyStrategy(const Strategy &strategy, int64_t devices);
/// What `to` has otherwise than `from`: "zero 0 -> 1, hybrid_shard 1 -> 8".
std::string differenceOf(const Strategy &from, const Strategy &to);

/// All keys of design order, for report.json. tp is a number, or "2x2".
nlohmann::ordered_json strategyToJson(const Strategy &strategy);

/// What the user fixed; the rest is searched.
struct StrategyRequest : StrategyKeys<std::optional> {
  /// How many of the cluster's devices are used: dp * tp * pp * cp. Without it,
  /// all are where one of these is named, else as many as are best.
  std::optional<int64_t> ranks;
  /// What else is demanded of all keys together; nothing where it is empty.
  /// Asked by several threads at once.
  std::function<bool(const Strategy &)> accepts;

  /// True when it says, by a degree or by `ranks`, how many ranks there are.
  bool namesRanks() const { return ranks || dp || tp || pp || cp; }
  /// True when all degrees that make ranks are fixed, and sp.
  bool isFixed() const { return dp && tp && pp && cp && sp; }
  /// Whether `strategy` has all values that are fixed, and is accepted. A
  /// micro-batch larger than a rank's share of `globalBatch` means all of that.
  bool allows(const Strategy &strategy, int64_t globalBatch) const;
};

/// Parses `auto` or `KEY=VALUE,...` for a number of ranks, or for the fewer
/// that the key `ranks` says. When the named
/// degrees multiply out to `ranks`, the unnamed keys are fixed at their neutral
/// values; but vpp > 1 means schedule=interleaved, and schedule=interleaved
/// without vpp leaves vpp to the search. One line on: an unknown or repeated
/// key, a bad value, degrees that cannot multiply out to `ranks`, a combination
/// that `checkCombination` refuses.
Expected<StrategyRequest> parseStrategy(std::string_view text, int64_t ranks);

/// A strategy in which every key that the text leaves out is neutral, whatever
/// number of ranks that makes; "" and "auto" are all neutral.
Expected<Strategy> parseCompleteStrategy(std::string_view text);

/// Refuses keys that contradict each other, as far as they are fixed:
///   (K1) vpp > 1 needs pp > 1, for chunks lie on pipeline stages in turn;
///   (K2) vpp > 1 needs schedule=interleaved, the others have one chunk;
///   (K3) hybrid_shard divides dp, and
///   (K4) needs zero >= 1, which splits something;
///   (K5) ep divides dp, or is tp times a divisor of dp: experts are spread
///        over that many neighbouring data-parallel ranks, and tensor-parallel
///        ones; the former divide hybrid_shard where it is larger than 1;
///   (K6) unlike batch_shares need zero=0 or 1 and ep=1: what ranks do together
///        in every micro-batch they would have to do equally often; and their
///        number divides dp.
/// What has no effect is no contradiction: schedule at pp=1, cp_kind at cp=1,
/// sp at tp=1.
Status checkCombination(const StrategyRequest &request);

/// What bounds enumeration. The defaults search dp, tp, sp and micro_batch.
struct StrategySpace {
  int64_t ranks = 1;
  int64_t globalBatch = 1; ///< Samples per step over all ranks.
  int64_t maxTp = INT64_MAX;
  /// Most stages times chunks to try: the layers of the model. 1 = pp is tried
  /// when it is named only.
  int64_t maxPp = 1;
  /// Chunks to try: up to so many, and where that is more than one, whatever
  /// gives every chunk of every stage the same number of layers.
  int64_t maxVpp = 4;
  int64_t maxCp = 1; ///< Most ranks on a sequence to try, both kinds.
  /// Experts of the model. ep is tried up to one rank each, and only where
  /// fewer ranks would hold more of them: of 8 experts on 5, 6 or 7 ranks some
  /// rank has 2, as on 4.
  int64_t experts = 1;
  /// Where not empty, ep is tried as large as it can be within so many
  /// neighbouring ranks (a link level's): on the same links a larger ep splits
  /// more for the price of an all-to-all that grows by (ep - 1) / ep only.
  std::vector<int64_t> expertSpans;
  /// Try tp as the squarest grid of two factors, and as a cube.
  bool grids = false;
  /// Where not 0, try to split ZeRO inside a node of so many devices only.
  int64_t nodeRanks = 0;
  /// Schedules to try where pp > 1. GPipe is not worth it: it takes the time of
  /// 1F1B and more memory.
  std::vector<ScheduleKind> schedules = {
      ScheduleKind::OneFOneB, ScheduleKind::Interleaved, ScheduleKind::ZbH1};
  /// Try sp=true besides sp=false where tp > 1.
  bool sequenceParallel = true;
  /// ZeRO stages to try where dp > 1.
  std::vector<int64_t> zeros = {0};
  std::vector<Recompute> recomputes = {Recompute::None};
  /// Try offloading where nothing fits without.
  bool offload = false;
  /// Try fewer micro-batches than stages: some of these idle, but where
  /// launches take most of the time that may be less.
  bool idleStages = false;
  /// The cluster's software, which KeyInfo::isTriedFor asks.
  Software software;
};

/// One line where `request` makes more than kMaxMicroBatches even with all of
/// `ranks` data-parallel.
Status checkMicroBatches(const StrategyRequest &request, int64_t globalBatch,
                         int64_t ranks);

/// Complete strategies that agree with the request: pp x cp x tp x dp = ranks,
/// then grids, sp, zero and the rest, and micro-batch sizes: the whole local
/// batch ceil(globalBatch / dp), then its halves (rounded up) down to 1, where
/// pp > 1 only those that make pp micro-batches or more (or 1) unless
/// `idleStages`. Keys that the request leaves open and the space does not list
/// are neutral. Deterministic: by pp, cp, tp, sp, ..., falling micro_batch. A
/// fixed micro_batch larger than the local batch is clipped. None makes more
/// than kMaxMicroBatches.
std::vector<Strategy> enumerateStrategies(const StrategyRequest &request,
                                          const StrategySpace &space);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_STRATEGY_STRATEGY_H
