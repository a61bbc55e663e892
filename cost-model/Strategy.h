//===- Strategy.h - Degrees of parallelism as the user names them -*- C++ -*-=//
#ifndef DPC_COST_MODEL_STRATEGY_H
#define DPC_COST_MODEL_STRATEGY_H

#include "cost-model/Result.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dpc::cost {

/// One complete strategy: the keys of `--strategy` and of report.json.
/// Defaults are the neutral values.
struct Strategy {
  int64_t dp = 1;
  int64_t tp = 1;
  int64_t pp = 1;
  int64_t vpp = 1;
  int64_t cp = 1;
  std::string cpKind = "ring";
  int64_t ep = 1;
  bool sp = false;
  int64_t zero = 0;
  int64_t hybridShard = 1;
  std::string schedule = "1f1b";
  std::string recompute = "none";
  /// Samples per micro-batch on one data-parallel rank; 0 = the whole local
  /// batch.
  int64_t microBatch = 0;
  std::string offload = "none";

  /// dp * tp * pp * cp: the ranks it needs. (ep divides dp * cp * tp.)
  int64_t ranks() const;
  bool operator==(const Strategy &) const = default;
};

/// The keys, e.g. "dp=2,tp=4,micro_batch=8"; degrees dp and tp always, others
/// where they differ from the neutral value.
std::string stringifyStrategy(const Strategy &strategy);

/// All keys of design order, for report.json.
nlohmann::ordered_json strategyToJson(const Strategy &strategy);

/// What the user fixed; the rest is searched.
struct StrategyRequest {
  std::optional<int64_t> dp;
  std::optional<int64_t> tp;
  std::optional<bool> sp;
  std::optional<int64_t> microBatch;
  std::optional<int64_t> zero;

  /// True when dp, tp and sp are fixed, so that at most micro_batch is
  /// searched.
  bool isFixed() const { return dp && tp && sp; }
};

/// Parses `auto` or `KEY=VALUE,...` for a number of ranks. When the named
/// degrees multiply out to `ranks`, the unnamed degrees are fixed at 1 and sp
/// at false. One line on: an unknown or repeated key, a bad value, degrees that
/// cannot multiply out to `ranks`, a key this build cannot execute.
Result<StrategyRequest> parseStrategy(std::string_view text, int64_t ranks);

/// What bounds enumeration.
struct StrategySpace {
  int64_t ranks = 1;
  int64_t globalBatch = 1; ///< Samples per step over all ranks.
  int64_t maxTp = INT64_MAX;
  /// Try sp=true besides sp=false where tp > 1.
  bool sequenceParallel = true;
  /// ZeRO stages to try where dp > 1.
  std::vector<int64_t> zeros = {0};
};

/// Complete strategies that agree with the request: dp x tp = ranks, sp, and
/// micro-batch sizes: the whole local batch ceil(globalBatch / dp), then its
/// halves (rounded up) down to 1. Deterministic: by tp, then sp, then falling
/// micro_batch. A fixed micro_batch larger than the local batch is clipped.
std::vector<Strategy> enumerateStrategies(const StrategyRequest &request,
                                          const StrategySpace &space);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_STRATEGY_H
