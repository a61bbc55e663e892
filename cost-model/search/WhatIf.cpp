//===- WhatIf.cpp - The same question on a changed cluster ----------------===//
#include "cost-model/search/WhatIf.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <set>

namespace dpc::cost {

using nlohmann::ordered_json;

Cluster withMoreNodes(const Cluster &cluster, int64_t more) {
  Cluster larger = cluster;
  larger.groups.back().nodes += more;
  larger.levels.back().span = larger.numDevices();
  return larger;
}

std::vector<int64_t> nodesToAdd(const Cluster &cluster) {
  int64_t nodes = cluster.numNodes();
  std::set<int64_t> counts = {1, (nodes + 3) / 4, (nodes + 1) / 2, nodes};
  return {counts.begin(), counts.end()};
}

std::vector<ChangedCluster> changedClusters(const Cluster &cluster) {
  constexpr const char *kNoLink =
      "the cluster has one node: ask with a cluster.json of two";
  bool joinsNodes = cluster.numNodes() > 1;
  std::vector<ChangedCluster> all;
  ChangedCluster node{"one more node", withMoreNodes(cluster, 1),
                      joinsNodes ? "" : kNoLink};
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

WhatIf answerOf(const std::string &change, const SearchResult &result,
                int64_t devices) {
  WhatIf answer;
  answer.change = change;
  if (!result.hasWinner()) {
    answer.why = "nothing fits";
    return answer;
  }
  const Candidate &winner = result.candidates.front();
  const Evaluation &evaluation = winner.evaluation;
  answer.strategy = placedStrategy(winner.strategy, evaluation.decisions);
  answer.stepSeconds = evaluation.stepSeconds;
  answer.memoryBytes = evaluation.memory.total();
  answer.tokensPerSecond =
      result.totals.tokensPerStep() / evaluation.stepSeconds;
  answer.idleDevices = devices - winner.strategy.ranks();
  answer.bindingConstraint = result.bindingConstraint;
  return answer;
}

ordered_json whatIfToJson(const WhatIf &whatIf) {
  if (!whatIf.why.empty())
    return {{"change", whatIf.change}, {"why", whatIf.why}};
  return {{"change", whatIf.change},
          {"strategy", strategyToJson(whatIf.strategy)},
          {"step_seconds", whatIf.stepSeconds},
          {"tokens_per_second", whatIf.tokensPerSecond},
          {"memory_bytes", std::llround(whatIf.memoryBytes)},
          {"idle_devices", whatIf.idleDevices},
          {"binding_constraint", whatIf.bindingConstraint}};
}

} // namespace dpc::cost
