//===- WhatIf.cpp - The same question on a changed cluster ----------------===//
#include "cost-model/WhatIf.h"

#include <nlohmann/json.hpp>

#include <cmath>

namespace dpc::cost {

using nlohmann::ordered_json;

static int64_t numNodes(const Cluster &cluster) {
  int64_t nodes = 0;
  for (const NodeGroup &group : cluster.groups)
    nodes += group.nodes;
  return nodes;
}

std::vector<ChangedCluster> changedClusters(const Cluster &cluster) {
  constexpr const char *kNoLink = "no level of the cluster joins nodes";
  bool joinsNodes = numNodes(cluster) > 1;
  std::vector<ChangedCluster> all;
  ChangedCluster node{"one more node", cluster, joinsNodes ? "" : kNoLink};
  ++node.cluster.groups.back().nodes;
  node.cluster.levels.back().span = node.cluster.numDevices();
  ChangedCluster memory{"twice the memory", cluster, ""};
  for (NodeGroup &group : memory.cluster.groups)
    group.device.memoryBytes *= 2;
  ChangedCluster bandwidth{"half the bandwidth between nodes", cluster,
                           joinsNodes ? "" : kNoLink};
  if (joinsNodes)
    bandwidth.change = "half the bandwidth of " + cluster.levels.back().name;
  bandwidth.cluster.levels.back().bytesPerSecond /= 2;
  return {std::move(node), std::move(memory), std::move(bandwidth)};
}

ordered_json whatIfToJson(const std::string &change, const std::string &why) {
  return {{"change", change}, {"why", why}};
}

ordered_json whatIfToJson(const std::string &change,
                          const SearchResult &result) {
  if (!result.hasWinner())
    return whatIfToJson(change, "nothing fits");
  const Candidate &winner = result.candidates.front();
  const Evaluation &evaluation = winner.evaluation;
  double tokens =
      result.totals.tokensPerSample * double(result.totals.globalBatch);
  return {
      {"change", change},
      {"strategy", strategyToJson(placedStrategy(winner.strategy, evaluation))},
      {"step_seconds", evaluation.stepSeconds},
      {"tokens_per_second", tokens / evaluation.stepSeconds},
      {"memory_bytes", std::llround(evaluation.memory.total())},
      {"binding_constraint", result.bindingConstraint}};
}

} // namespace dpc::cost
