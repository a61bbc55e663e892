//===- WhatIf.h - The same question on a changed cluster --------*- C++ -*-===//
#ifndef DPC_COST_MODEL_SEARCH_WHATIF_H
#define DPC_COST_MODEL_SEARCH_WHATIF_H

#include "cost-model/search/Search.h"

namespace dpc::cost {

/// A cluster that somebody might buy instead.
struct ChangedCluster {
  std::string change; ///< "one more node"
  Cluster cluster;
  std::string why; ///< Why there is no such cluster; else empty.
};

/// One node more (of the last group), twice the memory of every device, half
/// the bandwidth of the level that joins nodes.
std::vector<ChangedCluster> changedClusters(const Cluster &cluster);

/// What is chosen after a change.
struct WhatIf {
  std::string change;
  std::string why;   ///< Why nothing is known of it; else empty.
  Strategy strategy; ///< Of the winner, with its placement.
  double stepSeconds = 0, memoryBytes = 0;
  int64_t idleDevices = 0;
  double tokensPerSecond = 0; ///< Or samples: unitOf in Report.h.
  std::string bindingConstraint;
};

/// The answer that a search on the changed cluster of `devices` gave.
WhatIf answerOf(const std::string &change, const SearchResult &result,
                int64_t devices);

/// An entry of "what_if" in report.json.
nlohmann::ordered_json whatIfToJson(const WhatIf &whatIf);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_SEARCH_WHATIF_H
