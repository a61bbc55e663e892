//===- BetterPlan.h - What the search finds beside what is run --*- C++ -*-===//
#ifndef DPC_COST_MODEL_SEARCH_BETTERPLAN_H
#define DPC_COST_MODEL_SEARCH_BETTERPLAN_H

#include "cost-model/search/Search.h"

namespace dpc::cost {

/// The answer to who asks what the present configuration does, and what would
/// be better: the best plan of a search that nothing was fixed for.
struct BetterPlan {
  /// With its placement; none where nothing better was found.
  std::optional<Strategy> strategy;
  double stepSeconds = 0, memoryBytes = 0;
  std::string bindingConstraint;
  /// Of what was asked about; 0 where that cannot run or does not fit.
  double askedSeconds = 0, askedBytes = 0;
  int64_t considered = 0;
  int64_t clusterDevices = 0; ///< The plan may use fewer.
  double searchSeconds = 0;
};

/// The winner of `free` where it is better than that of `asked` by `objective`,
/// else no strategy. Both are of clusters of
/// `devices`, of which they may have been asked to use fewer.
BetterPlan betterPlan(const SearchResult &asked, const SearchResult &free,
                      Objective objective, int64_t devices);

/// One sentence.
std::string betterPlanText(const BetterPlan &better);

/// "better" of report.json.
nlohmann::ordered_json betterPlanToJson(const BetterPlan &better);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_SEARCH_BETTERPLAN_H
