//===- MinCutTest.cpp - Minimal cuts of flow networks ---------------------===//
#include "cost-model/solve/MinCut.h"

#include <gtest/gtest.h>

#include <random>

using namespace dpc;
using namespace dpc::cost;

namespace {

struct Arc {
  int32_t from, to;
  int64_t capacity;
};

int64_t valueOf(const std::vector<Arc> &arcs, const std::vector<bool> &side) {
  int64_t value = 0;
  for (const Arc &arc : arcs)
    if (side[arc.from] && !side[arc.to])
      value += arc.capacity;
  return value;
}

TEST(MinCutTest, CutsTheNarrowEdge) {
  FlowNetwork network;
  for (int i = 0; i < 4; ++i)
    network.addNode();
  network.addEdge(0, 1, FlowNetwork::kUnlimited);
  network.addEdge(1, 2, 7);
  network.addEdge(2, 3, FlowNetwork::kUnlimited);
  EXPECT_EQ(network.sourceSide(0, 3),
            (std::vector<bool>{true, true, false, false}));
  EXPECT_EQ(network.cutValue(), 7);
}

TEST(MinCutTest, NoPathCostsNothing) {
  FlowNetwork network;
  network.addNode();
  network.addNode();
  EXPECT_EQ(network.sourceSide(0, 1), (std::vector<bool>{true, false}));
  EXPECT_EQ(network.cutValue(), 0);
}

TEST(MinCutTest, AgreesWithAllSubsets) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const int32_t count = 3 + static_cast<int32_t>(random() % 6);
    FlowNetwork network;
    std::vector<Arc> arcs;
    for (int32_t i = 0; i < count; ++i)
      network.addNode();
    for (int i = 0; i < 3 * count; ++i) {
      Arc arc{static_cast<int32_t>(random() % count),
              static_cast<int32_t>(random() % count),
              static_cast<int64_t>(random() % 10)};
      network.addEdge(arc.from, arc.to, arc.capacity);
      arcs.push_back(arc);
    }
    int64_t least = INT64_MAX;
    for (uint32_t set = 0; set < (1u << count); ++set) {
      std::vector<bool> side;
      for (int32_t i = 0; i < count; ++i)
        side.push_back(set >> i & 1);
      if (side[0] && !side[count - 1])
        least = std::min(least, valueOf(arcs, side));
    }
    std::vector<bool> side = network.sourceSide(0, count - 1);
    EXPECT_TRUE(side[0] && !side[count - 1]);
    EXPECT_EQ(valueOf(arcs, side), least) << "round " << round;
    EXPECT_EQ(network.cutValue(), least) << "round " << round;
  }
}

} // namespace
