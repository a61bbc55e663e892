//===- WhatIf.h - The same question on a changed cluster --------*- C++ -*-===//
#ifndef DPC_COST_MODEL_WHATIF_H
#define DPC_COST_MODEL_WHATIF_H

#include "cost-model/Search.h"

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

/// An entry of "what_if" in report.json: "change" and what is chosen then, or
/// "why" nothing is known.
nlohmann::ordered_json whatIfToJson(const std::string &change,
                                    const SearchResult &result);
nlohmann::ordered_json whatIfToJson(const std::string &change,
                                    const std::string &why);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_WHATIF_H
