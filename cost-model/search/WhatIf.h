//===- WhatIf.h - The search on a changed cluster ---------------*- C++ -*-===//
#pragma once

#include "cost-model/search/Search.h"

namespace dpc::cost {

/// A change of the cluster.
struct ChangedCluster {
  std::string change; ///< "one more node"
  Cluster cluster;
  std::string why; ///< Why the change is not possible, or "".
};

Cluster withMoreNodes(const Cluster &cluster, int64_t more);

/// Returns the numbers of nodes to add until one helps: 1, a fourth, a half and
/// all of the present number, rising.
std::vector<int64_t> nodesToAdd(const Cluster &cluster);

/// Returns the changes of the cluster that --what-if tries: one more node in
/// the last group, twice the memory of every device, half the bandwidth of the
/// outermost level.
std::vector<ChangedCluster> changedClusters(const Cluster &cluster);

struct WhatIf {
  std::string change;
  std::string why;   ///< Why there is no winner, or "".
  Strategy strategy; ///< The winner with its placement.
  double stepSeconds = 0, memoryBytes = 0;
  int64_t idleDevices = 0;
  double tokensPerSecond = 0; ///< Or samples per second (unitOf).
  std::string bindingConstraint;
};

/// Describes the winner of `result`, the search on the changed cluster of
/// `devices` devices.
WhatIf answerOf(const std::string &change, const SearchResult &result,
                int64_t devices);

nlohmann::ordered_json whatIfToJson(const WhatIf &whatIf);

} // namespace dpc::cost
