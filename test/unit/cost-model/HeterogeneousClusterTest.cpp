//===- HeterogeneousClusterTest.cpp - Groups of different devices ---------===//

#include "cost-model/machine/HeterogeneousCluster.h"
#include "cost-model/search/FormulaEstimate.h"

#include <gtest/gtest.h>

using namespace dpc;
using namespace dpc::cost;

namespace {

NodeGroup group(const std::string &name, int64_t nodes, double peak,
                double bytes) {
  NodeGroup result;
  result.nodes = nodes;
  result.devicesPerNode = 4;
  result.device.name = name;
  result.device.peakFlops.fill(peak);
  result.device.memoryBytes = bytes;
  return result;
}

Cluster threeGroups() {
  Cluster cluster;
  cluster.name = "three";
  cluster.groups = {group("fast", 2, 4e12, 40), group("slow", 1, 1e12, 16),
                    group("large", 1, 2e12, 80)};
  return cluster;
}

const std::vector<int64_t> kBackwards = {2, 1, 0};

} // namespace

TEST(HeterogeneousCluster, DevicesOfStages) {
  Cluster cluster = threeGroups();
  ASSERT_TRUE(isHeterogeneous(cluster));
  RankOrder order = {{"dp", 4}, {"pp", 4}};
  const size_t groups[] = {0, 0, 1, 2};
  const double bytes[] = {40, 40, 16, 80};
  for (int64_t stage = 0; stage < 4; ++stage) {
    StageDevices devices = devicesOfStage(cluster, order, stage, DType::F32);
    EXPECT_EQ(devices.group, groups[stage]);
    EXPECT_EQ(devices.usableBytes, bytes[stage]);
  }
}

TEST(HeterogeneousCluster, TheSlowestDeviceOfAStageCounts) {
  Cluster cluster = threeGroups();
  // pp is the innermost axis, so both stages have devices of all groups.
  for (int64_t stage = 0; stage < 2; ++stage) {
    StageDevices devices =
        devicesOfStage(cluster, {{"pp", 2}, {"dp", 8}}, stage, DType::F32);
    EXPECT_EQ(devices.group, 1u);
    EXPECT_EQ(devices.usableBytes, 16);
  }
  // Devices that the plan does not use do not count.
  EXPECT_EQ(devicesOfStage(cluster, {{"dp", 8}}, 0, DType::F32).group, 0u);
}

TEST(HeterogeneousCluster, Arrangements) {
  Cluster cluster = threeGroups();
  EXPECT_EQ(groupOrders(cluster).size(), 6u);
  EXPECT_EQ(groupOrders(cluster).front(), std::vector<int64_t>({0, 1, 2}));
  auto arranged = arrangeGroups(cluster, kBackwards);
  ASSERT_TRUE(arranged);
  EXPECT_EQ(arranged->groups[0].device.name, "large");
  EXPECT_EQ(arranged->numDevices(), 16);
  std::vector<int64_t> places = placesOfDevices(cluster, kBackwards);
  ASSERT_EQ(places.size(), 16u);
  EXPECT_EQ(places[0], 12);
  EXPECT_EQ(places[4], 8);
  EXPECT_EQ(places[15], 7);
  // Only the devices of groups 2 and 0 are numbered.
  EXPECT_EQ(placesOfDevices(cluster, {2, 0})[0], 8);
  EXPECT_EQ(arrangeGroups(cluster, {3}).message(),
            "--strategy: placement: no group 3 of nodes; expected numbers "
            "below 3 for three");
}

TEST(HeterogeneousCluster, EqualGroupsHaveOneOrder) {
  Cluster cluster = threeGroups();
  cluster.groups.resize(1);
  cluster.groups.push_back(cluster.groups.front());
  EXPECT_FALSE(isHeterogeneous(cluster));
  EXPECT_EQ(groupOrders(cluster).size(), 1u);
  EXPECT_TRUE(someGroups(cluster).empty());
  EXPECT_EQ(someGroups(threeGroups()).size(), 6u);
}

TEST(HeterogeneousCluster, MeanOfTheFastestDevices) {
  EXPECT_DOUBLE_EQ(meanPeak(threeGroups(), 8), 4e12);
  EXPECT_DOUBLE_EQ(meanPeak(threeGroups(), 16),
                   (8 * 4e12 + 4 * 2e12 + 4 * 1e12) / 16);
}

TEST(HeterogeneousCluster, FastRanksTakeMoreMicroBatches) {
  Cluster cluster;
  cluster.groups = {group("fast", 1, 3e12, 40), group("slow", 1, 1e12, 40)};
  Strategy strategy;
  strategy.dp = 8;
  strategy.zero = 1;
  auto share = [&](int64_t microBatches) {
    return heterogeneousShare(cluster, strategy, microBatches, DType::F32);
  };
  // Four ranks are three times as fast as the other four. Each fast rank takes
  // 6 of 32 micro-batches and each slow rank takes 2. Of 16 micro-batches, they
  // take 3 and 1. Of 24 micro-batches, they take 5 and 1.
  EXPECT_NEAR(share(4), 2.0 / 4, 1e-9);
  EXPECT_NEAR(share(2), 1.0 / 2, 1e-9);
  EXPECT_NEAR(share(3), 5.0 / 3 / 3, 1e-9);
  EXPECT_EQ(share(1), 1);
  strategy.pp = 2;
  EXPECT_NEAR(share(4), 1.0 / 2, 1e-9);
  strategy.pp = 1;
  strategy.zero = 3; // Ranks synchronize in every micro-batch.
  EXPECT_EQ(share(4), 1);
  strategy.zero = 1;
  strategy.batchShares = BatchShares::even();
  EXPECT_EQ(share(4), 1);
}

TEST(HeterogeneousCluster, TheFormulaUsesShares) {
  Cluster cluster = threeGroups();
  for (NodeGroup &group : cluster.groups) {
    group.device.memoryBytesPerSecond = 1e12;
    group.device.gemm.peakFraction = 1;
  }
  cluster.levels.push_back({"wire", cluster.numDevices(), 1e12, 1e-6});
  ModelTotals totals;
  totals.flopsPerStep = 1e15;
  totals.globalBatch = 64;
  Strategy strategy;
  strategy.dp = cluster.numDevices();
  auto seconds = [&](int64_t microBatch) {
    strategy.microBatch = microBatch;
    return estimateByFormula(cluster, totals, strategy).computeSeconds;
  };
  // A slow device computes one sample in 1 unit of time. With micro-batches of
  // 1 sample, each fast device computes 6 samples in 1.5 units, each slow
  // device 1 sample in 1 unit, and each large device 3 samples in 1.5 units.
  // With micro-batches of 4 samples, a slow device takes 4 units.
  EXPECT_NEAR(seconds(1) / seconds(4), 1.5 / 4, 1e-3);
}
