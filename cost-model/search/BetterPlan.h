//===- BetterPlan.h - A better plan than the present one --------*- C++ -*-===//
#ifndef DPC_COST_MODEL_SEARCH_BETTERPLAN_H
#define DPC_COST_MODEL_SEARCH_BETTERPLAN_H

#include "cost-model/search/Search.h"

namespace dpc::cost {

/// The best plan of a search without fixed keys, compared with the user's
/// present configuration.
struct BetterPlan {
  /// The better strategy with its placement; unset if no plan is better.
  std::optional<Strategy> strategy;
  double stepSeconds = 0, memoryBytes = 0;
  std::string bindingConstraint;
  /// Step seconds and memory of the present plan; 0 if it cannot run or does
  /// not fit.
  double askedSeconds = 0, askedBytes = 0;
  int64_t considered = 0;
  int64_t clusterDevices = 0; ///< The better plan may use fewer.
  double searchSeconds = 0;
};

/// Compares the winners of `free`, a search without fixed keys, and `asked`,
/// the present plan, by `objective`. Both searches are for a cluster with
/// `devices` devices; their plans may use fewer.
BetterPlan betterPlan(const SearchResult &asked, const SearchResult &free,
                      Objective objective, int64_t devices);

/// The comparison as one sentence.
std::string betterPlanText(const BetterPlan &better);

/// "better" of report.json.
nlohmann::ordered_json betterPlanToJson(const BetterPlan &better);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_SEARCH_BETTERPLAN_H
