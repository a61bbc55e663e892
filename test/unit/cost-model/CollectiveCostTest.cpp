#include "cost-model/machine/CollectiveCost.h"

#include <gtest/gtest.h>

#include <limits>

using namespace dpc;
using namespace dpc::cost;
using enum Algorithm;
using enum Collective;

/// 4 nodes of 8 devices, with 100 B/s and 1 s latency inside a node, and 10 B/s
/// and 2 s latency between nodes.
static Cluster twoLevels() {
  Cluster cluster;
  cluster.groups.push_back(NodeGroup{4, 8, Device()});
  cluster.levels = {
      {.name = "inner", .span = 8, .bytesPerSecond = 100, .latencySeconds = 1},
      {.name = "outer", .span = 32, .bytesPerSecond = 10, .latencySeconds = 2}};
  return cluster;
}

static double secondsWith(const Cluster &cluster, Algorithm algorithm,
                          Collective kind, double bytes,
                          std::vector<int64_t> ranks) {
  return estimateCollective(cluster, kind, bytes, {ranks}, algorithm).seconds;
}

constexpr double notApplicable = std::numeric_limits<double>::infinity();
constexpr Collective allKinds[] = {AllReduce, ReduceScatter, AllGather,
                                   AllToAll,  Broadcast,     SendRecv};

TEST(CollectiveCost, OneLevelByHand) {
  Cluster c = twoLevels();
  // 4 ranks divide 400 bytes into chunks of 100 bytes: 3 steps of 2 s.
  EXPECT_DOUBLE_EQ(secondsWith(c, Ring, ReduceScatter, 400, {4, 1}), 6);
  EXPECT_DOUBLE_EQ(secondsWith(c, Ring, AllGather, 400, {4, 1}), 6);
  EXPECT_DOUBLE_EQ(secondsWith(c, Ring, AllReduce, 400, {4, 1}), 12);
  // Tree: 2 * (2 * 1 s + 4 s).
  EXPECT_DOUBLE_EQ(secondsWith(c, Tree, AllReduce, 400, {4, 1}), 12);
  // 5 ranks need depth 3.
  EXPECT_DOUBLE_EQ(secondsWith(c, Tree, Broadcast, 400, {5, 1}), 7);
  // Direct: 1 s + 3/4 * 4 s.
  EXPECT_DOUBLE_EQ(secondsWith(c, Direct, AllToAll, 400, {4, 1}), 4);
  EXPECT_DOUBLE_EQ(secondsWith(c, Direct, SendRecv, 400, {2, 1}), 5);
}

TEST(CollectiveCost, InSwitchNeedsTheSwitch) {
  Cluster c = twoLevels();
  EXPECT_EQ(secondsWith(c, InSwitch, AllReduce, 400, {8, 1}), notApplicable);
  c.levels[0].inNetworkReduction = true;
  EXPECT_DOUBLE_EQ(secondsWith(c, InSwitch, AllReduce, 400, {8, 1}), 2 * 1 + 4);
  // The ring would take 14 * (1 + 0.5) = 21 s.
  CollectiveEstimate best =
      estimateCollective(c, AllReduce, 400, GroupPlacement{{8, 1}});
  EXPECT_EQ(best.algorithm, InSwitch);
  EXPECT_EQ(secondsWith(c, InSwitch, AllReduce, 400, {8, 4}), notApplicable);
}

TEST(CollectiveCost, HierarchicalByHand) {
  Cluster c = twoLevels();
  // The inner reduce_scatter of 800 bytes takes 7 * (1 + 1) = 14 s, and so does
  // the inner all_gather. The outer all_reduce of 100 bytes takes 2 * 3 * (2 +
  // 2.5) = 27 s as a ring and 2 * (2 * 2 + 10) = 28 s as a tree.
  EXPECT_DOUBLE_EQ(secondsWith(c, Hierarchical, AllReduce, 800, {8, 4}), 55);
  // A flat ring would run at 10 B/s: 62 * (2 + 2.5) = 279 s.
  EXPECT_DOUBLE_EQ(secondsWith(c, Ring, AllReduce, 800, {8, 4}), 279);
  CollectiveEstimate best =
      estimateCollective(c, AllReduce, 800, GroupPlacement{{8, 4}});
  EXPECT_EQ(best.algorithm, Hierarchical);
  // Each rank sends 2 * 7/8 * 800 bytes inside its node, 2 * 3/4 * 100 outside.
  EXPECT_DOUBLE_EQ(best.bytesPerLevel[0], 1400);
  EXPECT_DOUBLE_EQ(best.bytesPerLevel[1], 150);
  // An all_to_all sends 7/32 of 800 = 175 bytes inside the node and 24/32 = 600
  // bytes outside: 3 + 60 s.
  EXPECT_DOUBLE_EQ(secondsWith(c, Hierarchical, AllToAll, 800, {8, 4}), 63);
}

TEST(CollectiveCost, OneRankAndNoBytesAreFree) {
  Cluster c = twoLevels();
  for (Collective kind : allKinds) {
    EXPECT_EQ(estimateCollective(c, kind, 1e9, {{1, 1}}).seconds, 0);
    EXPECT_EQ(estimateCollective(c, kind, 0, {{8, 4}}).seconds, 0);
    EXPECT_EQ(estimateCollective(c, kind, 1e9, GroupPlacement{}).seconds, 0);
  }
}

TEST(CollectiveCost, MonotoneInBytesAndOversubscription) {
  Cluster c = twoLevels(), thin = c;
  for (Level &level : thin.levels)
    level.oversubscription = 2;
  for (Collective kind : allKinds)
    for (std::vector<int64_t> ranks :
         {std::vector<int64_t>{2, 1}, {8, 1}, {1, 4}, {8, 4}}) {
      double last = 0;
      for (double bytes = 1; bytes < 1e9; bytes *= 3) {
        double seconds =
            estimateCollective(c, kind, bytes, GroupPlacement{ranks}).seconds;
        EXPECT_GE(seconds, last);
        EXPECT_GE(estimateCollective(thin, kind, bytes, GroupPlacement{ranks})
                      .seconds,
                  seconds);
        last = seconds;
      }
    }
}

TEST(CollectiveCost, AllReduceIsReduceScatterPlusAllGather) {
  Cluster c = twoLevels();
  for (std::vector<int64_t> ranks :
       {std::vector<int64_t>{8, 1}, {1, 4}, {8, 4}, {3, 2}}) {
    // With large buffers, no tree is chosen for its low latency.
    GroupPlacement group{ranks};
    double both = estimateCollective(c, ReduceScatter, 1e7, group).seconds +
                  estimateCollective(c, AllGather, 1e7, group).seconds;
    double reduce = estimateCollective(c, AllReduce, 1e7, group).seconds;
    EXPECT_LE(reduce, both * 1.0001);
    EXPECT_GE(reduce, both * 0.95);
  }
}

TEST(CollectiveCost, FlatBytesAddUp) {
  Cluster c = twoLevels();
  CollectiveEstimate ring =
      estimateCollective(c, AllReduce, 3200, {{8, 4}}, Ring);
  // A rank sends 2 * 31/32 * 3200 bytes in total. 28 of the 32 ring edges are
  // inside nodes.
  EXPECT_DOUBLE_EQ(ring.bytesPerLevel[0] + ring.bytesPerLevel[1], 6200);
  EXPECT_DOUBLE_EQ(ring.bytesPerLevel[0], 6200 * 28.0 / 32);
}

TEST(CollectiveCost, LinkShapesMatter) {
  Cluster c = twoLevels();
  c.levels[0].kind = LinkKind::FullMesh;
  // A message uses one of the 7 links of a device.
  EXPECT_DOUBLE_EQ(secondsWith(c, Direct, SendRecv, 100, {2, 1}), 8);
  c.levels[0].kind = LinkKind::Ring;
  // In a ring of 8 devices, a message crosses two links on average.
  EXPECT_DOUBLE_EQ(secondsWith(c, Direct, AllToAll, 800, {8, 1}), 1 + 2 * 7);
  c.levels[1].oversubscription = 2;
  EXPECT_DOUBLE_EQ(secondsWith(c, Direct, SendRecv, 100, {1, 2}), 22);
}

TEST(PlaceAxis, InnermostFirst) {
  Cluster c = twoLevels();
  auto place = [&](int64_t stride, int64_t size) {
    return placeAxis(c, stride, size).ranksPerLevel;
  };
  using Ranks = std::vector<int64_t>;
  EXPECT_EQ(place(1, 8), (Ranks{8, 1}));
  EXPECT_EQ(place(1, 32), (Ranks{8, 4}));
  EXPECT_EQ(place(2, 16), (Ranks{4, 4}));
  EXPECT_EQ(place(8, 4), (Ranks{1, 4}));
  EXPECT_EQ(place(4, 2), (Ranks{2, 1}));
  EXPECT_EQ(place(1, 1), (Ranks{1, 1}));
  // A group of 3 ranks may span two nodes, so it counts on the outer level.
  EXPECT_EQ(place(1, 3), (Ranks{1, 3}));
  EXPECT_EQ(place(1, 16), (Ranks{8, 2}));
}

TEST(CollectiveCost, PairsMeetAtTheInnermostLevel) {
  Cluster c = twoLevels();
  EXPECT_EQ(placePair(c, 0, 7).ranksPerLevel, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(placePair(c, 7, 8).ranksPerLevel, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(placePair(c, 9, 9).size(), 1);
  EXPECT_DOUBLE_EQ(
      estimateCollective(c, SendRecv, 100, placePair(c, 7, 8)).seconds, 12);
}
