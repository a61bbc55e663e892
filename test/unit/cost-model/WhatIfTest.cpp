#include "cost-model/search/WhatIf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace dpc;
using namespace dpc::cost;
using testing::HasSubstr;

static Cluster nodesOf(int64_t nodes) {
  Cluster cluster;
  Device device;
  device.memoryBytes = 100;
  cluster.groups.push_back(NodeGroup{nodes, 4, device});
  cluster.levels = {{.name = "inner", .span = 4, .bytesPerSecond = 80},
                    {.name = "outer", .span = 4 * nodes, .bytesPerSecond = 80}};
  return cluster;
}

TEST(WhatIf, EachClusterHasOneChange) {
  std::vector<ChangedCluster> all = changedClusters(nodesOf(2));
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].cluster.numDevices(), 12);
  EXPECT_EQ(all[0].cluster.levels.back().span, 12);
  EXPECT_EQ(all[1].cluster.groups[0].device.memoryBytes, 200);
  EXPECT_EQ(all[1].cluster.numDevices(), 8);
  EXPECT_EQ(all[2].change, "half the bandwidth of outer");
  EXPECT_EQ(all[2].cluster.levels[0].bytesPerSecond, 80);
  EXPECT_EQ(all[2].cluster.levels[1].bytesPerSecond, 40);
  for (const ChangedCluster &changed : all)
    EXPECT_EQ(changed.why, "");
}

TEST(WhatIf, SeveralMoreNodes) {
  EXPECT_EQ(nodesToAdd(nodesOf(1)), std::vector<int64_t>{1});
  EXPECT_EQ(nodesToAdd(nodesOf(2)), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(nodesToAdd(nodesOf(16)), (std::vector<int64_t>{1, 4, 8, 16}));
  Cluster larger = withMoreNodes(nodesOf(16), 8);
  EXPECT_EQ(larger.numDevices(), 96);
  EXPECT_EQ(larger.levels.back().span, 96);
}

TEST(WhatIf, OneNodeHasNoLinkToOthers) {
  std::vector<ChangedCluster> all = changedClusters(nodesOf(1));
  EXPECT_THAT(all[0].why, HasSubstr("has one node"));
  EXPECT_EQ(all[1].why, "");
  EXPECT_EQ(all[2].why, all[0].why);
}

TEST(WhatIf, DescribesTheNewWinner) {
  SearchResult result;
  EXPECT_EQ(whatIfToJson(answerOf("x", result, 6))["why"], "nothing fits");
  result.totals.globalBatch = 8;
  result.totals.tokensPerSample = 100;
  result.bindingConstraint = "memory";
  Candidate winner;
  winner.fits = true;
  winner.strategy.dp = 4;
  winner.evaluation.stepSeconds = 2;
  result.candidates = {winner};
  auto json = whatIfToJson(answerOf("x", result, 6));
  EXPECT_EQ(json["change"], "x");
  EXPECT_EQ(json["strategy"]["dp"], 4);
  EXPECT_EQ(json["tokens_per_second"], 400);
  EXPECT_EQ(json["idle_devices"], 2);
  EXPECT_EQ(json["binding_constraint"], "memory");
}
