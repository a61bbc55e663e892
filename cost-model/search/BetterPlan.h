//===- BetterPlan.h - A better plan than the present one --------*- C++ -*-===//
#pragma once

#include "cost-model/search/Search.h"

namespace dpc::cost {

/// The best plan of a search without fixed keys, compared with the user's
/// present plan.
struct BetterPlan {
  /// The better strategy with its placement; empty if no plan is better.
  std::optional<Strategy> strategy;
  double stepSeconds = 0, memoryBytes = 0;
  std::string bindingConstraint;
  /// Step seconds and memory of the present plan; 0 if it cannot run or does
  /// not fit.
  double askedSeconds = 0, askedBytes = 0;
  int64_t considered = 0;
  int64_t clusterDevices = 0; ///< Including idle devices.
  double searchSeconds = 0;
};

/// Compares the winner of `free`, a search without fixed keys, with the winner
/// of `asked`, a search for the present plan, by `objective`. The cluster has
/// `devices` devices; both plans may use fewer.
BetterPlan betterPlan(const SearchResult &asked, const SearchResult &free,
                      Objective objective, int64_t devices);

std::string betterPlanText(const BetterPlan &better);

/// "better" of report.json.
nlohmann::ordered_json betterPlanToJson(const BetterPlan &better);

} // namespace dpc::cost
