//===- PlacementTest.cpp - Orders of axes against all orders --------------===//

#include "cost-model/machine/Placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

using namespace dpc;
using namespace dpc::cost;

namespace {

Cluster clusterOf(const std::vector<int64_t> &spans, double factor = 10) {
  Cluster cluster;
  Device device;
  device.name = "toy";
  cluster.groups.push_back(
      NodeGroup{spans.back() / spans.front(), spans.front(), device});
  double rate = 1e11;
  for (int64_t span : spans) {
    cluster.levels.push_back(
        {.name = "level" + std::to_string(cluster.levels.size()),
         .span = span,
         .bytesPerSecond = rate,
         .latencySeconds = 1e-6});
    rate /= factor;
  }
  return cluster;
}

std::string names(const RankOrder &order) {
  std::string text;
  for (const RankAxis &axis : order)
    text += (text.empty() ? "" : ".") + axis.name;
  return text;
}

const RankOrder kUsual = {{"tp", 8}, {"ep", 8}, {"pp", 2}};

} // namespace

TEST(Placement, TensorAxesAreInnermost) {
  Cluster cluster = clusterOf({8, 128});
  // This order is the worst one, because tp has the most traffic.
  RankOrder order = {{"pp", 2}, {"ep", 8}, {"tp", 8}};
  std::vector<Traffic> traffic = {{Collective::AllReduce, {"tp"}, 1e8, 100},
                                  {Collective::AllToAll, {"ep"}, 1e6, 100},
                                  {Collective::SendRecv, {"pp"}, 1e8, 10}};
  EXPECT_EQ(cheapestOrder(cluster, order, traffic).front().name, "tp");
}

TEST(Placement, ExpertAxesAreInnermostIfTheyHaveMoreTraffic) {
  Cluster cluster = clusterOf({8, 128});
  std::vector<Traffic> traffic = {{Collective::AllReduce, {"tp"}, 1e6, 100},
                                  {Collective::AllToAll, {"ep"}, 1e9, 100}};
  EXPECT_EQ(cheapestOrder(cluster, kUsual, traffic).front().name, "ep");
}

TEST(Placement, TheOrderStaysOnTies) {
  std::vector<Traffic> traffic = {{Collective::AllReduce, {"ep"}, 1e8, 1}};
  EXPECT_EQ(names(cheapestOrder(clusterOf({128}), kUsual, traffic)),
            "tp.ep.pp");
  EXPECT_EQ(names(cheapestOrder(clusterOf({8, 128}), kUsual, {})), "tp.ep.pp");
}

TEST(Placement, GroupsOfSeveralAxes) {
  Cluster cluster = clusterOf({8, 32, 128});
  RankOrder order = {{"a", 4}, {"b", 4}, {"c", 8}};
  using Ranks = std::vector<int64_t>;
  EXPECT_EQ(placeGroup(cluster, order, {"a"}).ranksPerLevel, Ranks({4, 1, 1}));
  EXPECT_EQ(placeGroup(cluster, order, {"b"}).ranksPerLevel, Ranks({2, 2, 1}));
  EXPECT_EQ(placeGroup(cluster, order, {"a", "b"}).ranksPerLevel,
            Ranks({8, 2, 1}));
  // Axes that are not adjacent are placed separately.
  EXPECT_EQ(placeGroup(cluster, order, {"a", "c"}).ranksPerLevel,
            Ranks({4, 2, 4}));
  EXPECT_EQ(placeNeighbours(cluster, order, "b").ranksPerLevel,
            Ranks({1, 2, 1}));
  EXPECT_EQ(strideOf(order, "c"), 16);
}

TEST(Placement, IsAsGoodAsTheBestOfAllOrders) {
  std::mt19937 random(7);
  auto draw = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  int changed = 0;
  for (int round = 0; round < 200; ++round) {
    RankOrder order;
    int64_t ranks = 1;
    for (const char *name : {"tp", "cp", "ep", "dp", "pp"}) {
      order.push_back({name, int64_t(1) << draw(0, 3)});
      ranks *= order.back().size;
    }
    int64_t node = int64_t(1) << draw(0, 3), rack = node << draw(0, 3);
    Cluster cluster = clusterOf({node, rack, std::max(ranks, rack)},
                                static_cast<double>(draw(1, 20)));
    std::vector<Traffic> traffic;
    for (int i = 0; i < 6; ++i) {
      Traffic one;
      one.kind = static_cast<Collective>(draw(0, 5));
      one.axes.push_back(order[draw(0, 4)].name);
      if (std::string other = order[draw(0, 4)].name;
          other != one.axes[0] && one.kind != Collective::SendRecv)
        one.axes.push_back(other);
      one.bytes = std::pow(10.0, draw(3, 9));
      one.times = static_cast<double>(draw(1, 100));
      traffic.push_back(one);
    }
    RankOrder all = order;
    std::ranges::sort(all, {}, &RankAxis::name);
    double least = std::numeric_limits<double>::infinity();
    do {
      least = std::min(least, trafficSeconds(cluster, all, traffic));
    } while (std::ranges::next_permutation(all, {}, &RankAxis::name).found);
    RankOrder found = cheapestOrder(cluster, order, traffic);
    EXPECT_NEAR(trafficSeconds(cluster, found, traffic), least, 1e-6 * least);
    changed += names(found) != names(order);
  }
  EXPECT_GT(changed, 20);
}

TEST(Placement, Text) {
  auto parsePlacement = [](const char *text) {
    return parseValue<PlacementSpec>("placement", text);
  };
  auto spec = parsePlacement("tp.ep.dp@1.0");
  ASSERT_TRUE(spec) << spec.message();
  EXPECT_EQ(spec->axes, std::vector<std::string>({"tp", "ep", "dp"}));
  EXPECT_EQ(spec->groups, std::vector<int64_t>({1, 0}));
  EXPECT_EQ(printValue(*spec), "tp.ep.dp@1.0");
  EXPECT_EQ(printValue(*parsePlacement("@2")), "@2");
  EXPECT_TRUE(parsePlacement("auto")->isAuto());
  EXPECT_EQ(parsePlacement("@2")->groups, std::vector<int64_t>({2}));
  for (const char *bad :
       {"tp.xp", "tp.tp", "tp..dp", ".tp", "tp@", "tp@a", "tp@0.0", "tp@-1"})
    EXPECT_FALSE(parsePlacement(bad)) << bad;
}
