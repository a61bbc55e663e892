//===- Strategy.h - Strategies and their keys -------------------*- C++ -*-===//
#pragma once

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

/// The field type of a complete strategy, in which every key has a value.
template <typename T> using Always = T;

/// One field for each key of `--strategy`. In a Strategy, `Of<T>` is T, and all
/// fields start with neutral values. In a StrategyRequest, `Of<T>` is
/// std::optional<T>, and all fields start empty. `kKeys` lists all keys for
/// parsing, printing, JSON, comparison and --help.
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
  /// Ranks that share the experts: a divisor of dp, or tp times such a divisor.
  Of<int64_t> ep = neutral<int64_t>(1);
  Of<bool> sp = neutral(false);
  Of<int64_t> zero = neutral<int64_t>(0);
  /// ZeRO shards over this many adjacent data-parallel ranks; 1 = over all.
  Of<int64_t> hybridShard = neutral<int64_t>(1);
  Of<ScheduleKind> schedule = neutral(ScheduleKind::OneFOneB);
  Of<Recompute> recompute = neutral(Recompute::None);
  /// Samples per micro-batch on one data-parallel rank; 0 = the rank's whole
  /// share of the batch.
  Of<int64_t> microBatch = neutral<int64_t>(0);
  Of<Offload> offload = neutral(Offload::None);
  Of<OffloadTarget> offloadTo = neutral(OffloadTarget::Host);
  Of<PlacementSpec> placement = neutral(PlacementSpec());
  Of<BatchShares> batchShares = neutral(BatchShares());
  Of<TpOverlap> tpOverlap = neutral(TpOverlap::None);

  bool operator==(const StrategyKeys &) const = default;
};

struct Strategy : StrategyKeys<Always> {
  /// Returns dp * tp * pp * cp. The ep ranks are among the dp * tp ranks.
  int64_t ranks() const;
  int64_t microBatches(int64_t globalBatch) const;
  bool operator==(const Strategy &) const = default;
};

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
                .help = "tensors outside the device's memory between uses",
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
                .help = "order of the mesh axes on the devices",
                .group = KeyGroup::Placement,
                .staysOpen = true},
        [](auto &keys) -> auto & { return keys.placement; }},
    Key{KeyInfo{.name = "batch_shares",
                .help = "each data-parallel rank's share of the batch",
                .group = KeyGroup::BatchShares,
                .staysOpen = true},
        [](auto &keys) -> auto & { return keys.batchShares; }},
    Key{KeyInfo{.name = "tp_overlap",
                .help = "overlap of tensor-parallel collectives with GEMMs",
                .needs = "tp",
                .isOfLayer = true,
                .isTriedFor =
                    [](const Software &software) {
                      return software.tensorChunks > 1;
                    },
                .isMarked = true},
        [](auto &keys) -> auto & { return keys.tpOverlap; }}};

template <typename Visit> void visitKeys(Visit &&visit) {
  std::apply([&](const auto &...key) { (visit(key.info, key.field), ...); },
             kKeys);
}

/// Returns whether `key` has an effect in `strategy` (KeyInfo::needs).
bool hasEffect(const KeyInfo &key, const Strategy &strategy);

/// Returns the properties of all keys for the HTML report: a list of {"name",
/// "neutral", "needs", "printed"}.
nlohmann::ordered_json keysToJson();

/// Returns a line for each key with name, values and meaning, for --help.
std::string describeKeys();

/// The largest number of micro-batches of a step. Schedules have an entry for
/// each micro-batch, so more micro-batches would only cost memory and time.
inline constexpr int64_t kMaxMicroBatches = 65'536;

/// Returns the strategy in the form of --strategy, such as "dp=2,tp=2x2". The
/// text has the keys that are always printed or not neutral, except keys
/// without effect.
std::string stringifyStrategy(const Strategy &strategy);

/// Returns the same text, with "ranks=N" if the strategy uses fewer than
/// `devices` ranks.
std::string stringifyStrategy(const Strategy &strategy, int64_t devices);
/// Returns the keys in which two strategies differ: "zero 0 -> 1, hybrid_shard
/// 1 -> 8".
std::string differenceOf(const Strategy &from, const Strategy &to);

/// Returns all keys and values, for report.json. tp is a number, or a grid such
/// as "2x2".
nlohmann::ordered_json strategyToJson(const Strategy &strategy);

/// The keys that the user fixes. The search chooses the other keys.
struct StrategyRequest : StrategyKeys<std::optional> {
  /// The number of devices to use: dp * tp * pp * cp. If it is unset, a request
  /// that fixes any of these degrees uses all devices; for any other request,
  /// the search chooses the number.
  std::optional<int64_t> ranks;
  /// If set, complete strategies must satisfy this condition. Several threads
  /// call the function at once.
  std::function<bool(const Strategy &)> accepts;

  /// Returns whether a degree or `ranks` is fixed.
  bool namesRanks() const { return ranks || dp || tp || pp || cp; }
  bool isFixed() const { return dp && tp && pp && cp && sp; }
  /// Returns whether `strategy` has all fixed values and satisfies `accepts`. A
  /// fixed micro-batch that is larger than a rank's share of `globalBatch`
  /// counts as this share.
  bool allows(const Strategy &strategy, int64_t globalBatch) const;
};

/// Parses `auto` or `KEY=VALUE,...` for a cluster of `ranks` devices. The key
/// `ranks` may select fewer devices. If the product of the degrees in the text
/// is the number of ranks, all other keys become neutral, with two exceptions:
/// vpp > 1 implies schedule=interleaved, and schedule=interleaved without vpp
/// leaves vpp to the search. Fails for an unknown or repeated key, a bad value,
/// degrees whose product cannot be the number of ranks, and keys that
/// `checkCombination` refuses.
Expected<StrategyRequest> parseStrategy(std::string_view text, int64_t ranks);

/// Parses a strategy for any number of ranks. Keys that are not in the text are
/// neutral. "" and "auto" have no keys.
Expected<Strategy> parseCompleteStrategy(std::string_view text);

/// Refuses fixed keys that contradict each other:
///   (K1) vpp > 1 needs pp > 1: chunks alternate between pipeline stages;
///   (K2) vpp > 1 needs schedule=interleaved: other schedules have one chunk;
///   (K3) hybrid_shard divides dp;
///   (K4) hybrid_shard > 1 needs zero >= 1: zero=0 shards nothing;
///   (K5) ep divides dp, or ep is tp times a divisor of dp. If hybrid_shard >
///        1, the data-parallel part of ep divides it;
///   (K6) uneven batch_shares need zero=0 or 1 and ep=1, because ranks with
///        different numbers of micro-batches cannot synchronize after each
///        micro-batch; and the number of ratios divides dp.
/// A key without effect, such as schedule with pp=1, is not a contradiction.
Status checkCombination(const StrategyRequest &request);

/// The values that the enumeration tries. By default, dp, tp, sp and
/// micro_batch vary.
struct StrategySpace {
  int64_t ranks = 1;
  int64_t globalBatch = 1; ///< Samples per step over all ranks.
  int64_t maxTp = INT64_MAX;
  /// The largest number of stages times chunks per stage: the number of layers
  /// of the model.
  int64_t maxPp = 1;
  /// The largest number of chunks per stage. If it is above 1, larger numbers
  /// are also tried if all chunks have the same number of layers.
  int64_t maxVpp = 4;
  int64_t maxCp = 1; ///< The largest cp, for ring and Ulysses.
  /// The number of experts of the model. If two values of ep leave the same
  /// number of experts on the fullest rank, only the smaller one is tried: with
  /// 8 experts, ep = 4 to 7 all leave two experts on some rank.
  int64_t experts = 1;
  /// Numbers of adjacent ranks that a link level joins. If not empty, only the
  /// largest ep within each of these numbers is tried: on the same links, a
  /// larger ep shards more, and the time of the all_to_all grows only with (ep
  /// - 1) / ep.
  std::vector<int64_t> expertSpans;
  /// Whether to try tp as the squarest two-dimensional grid and as a cube too.
  bool grids = false;
  /// Whether to try sp with such a grid, which already shards activations along
  /// two dimensions: it saves some memory and no time.
  bool sequencesOfGrids = false;
  /// The number of devices of a node, the only hybrid_shard above 1 that is
  /// tried; 0 = none.
  int64_t nodeRanks = 0;
  /// Schedules to try if pp > 1. GPipe is missing because it takes as long as
  /// 1F1B and needs more memory.
  std::vector<ScheduleKind> schedules = {
      ScheduleKind::OneFOneB, ScheduleKind::Interleaved, ScheduleKind::ZbH1};
  /// Whether sp=true is tried if tp > 1.
  bool sequenceParallel = true;
  /// ZeRO stages to try if dp > 1.
  std::vector<int64_t> zeros = {0};
  std::vector<Recompute> recomputes = {Recompute::None};
  /// Whether offloading is tried for strategies that need too much memory.
  bool offload = false;
  /// Whether fewer micro-batches than stages are tried. Stages then idle, but
  /// fewer kernels are launched, which is faster if launch overhead dominates.
  bool idleStages = false;
  /// Whether micro-batches are also tried that divide the samples of a rank,
  /// and are not a half, a fourth etc. of them.
  bool triesDivisors = false;
  Software software;
};

/// Fails if `request` has more than kMaxMicroBatches micro-batches even if all
/// `ranks` are data-parallel.
Status checkMicroBatches(const StrategyRequest &request, int64_t globalBatch,
                         int64_t ranks);

/// Returns all strategies of the space that have the fixed values of the
/// request and pp x cp x tp x dp = ranks, ordered by pp, cp, tp, sp, ... and
/// falling micro_batch. Micro-batch sizes are the local batch ceil(globalBatch
/// / dp) and its halves (rounded up) down to 1. If pp > 1 and not `idleStages`,
/// sizes above 1 must give at least pp micro-batches. A fixed micro_batch
/// larger than the local batch is clipped. Keys that neither the request nor
/// the space mentions are neutral. No step exceeds kMaxMicroBatches.
std::vector<Strategy> enumerateStrategies(const StrategyRequest &request,
                                          const StrategySpace &space);

} // namespace dpc::cost
