//===- NeighboursTest.cpp - strategies with small differences -------------===//
#include "cost-model/search/Neighbours.h"

#include <gtest/gtest.h>

namespace dpc::cost {
namespace {

TEST(Neighbours, DifferInTwoKeysAtMost) {
  Strategy a;
  a.dp = 8;
  a.tp = 2;
  a.microBatch = 4;
  Strategy b = a;
  EXPECT_TRUE(areNeighbours(a, b));
  b.dp = 4;
  b.tp = 4;
  b.microBatch = 8;
  EXPECT_TRUE(areNeighbours(a, b, 1));
  b.sp = true; // The second difference: as many micro-batches as before.
  EXPECT_FALSE(areNeighbours(a, b, 1));
  EXPECT_TRUE(areNeighbours(a, b));
  b.microBatch = 2; // The third one: neither their size nor their number.
  EXPECT_FALSE(areNeighbours(a, b));
  b = a;
  b.dp = 2;
  b.tp = 8;
  EXPECT_FALSE(areNeighbours(a, b));
}

TEST(Neighbours, StagesKeepSizesOrNumbersOfMicroBatches) {
  Strategy a;
  a.dp = 8;
  a.pp = 2;
  a.microBatch = 16;
  Strategy b = a;
  b.dp = 4;
  b.pp = 4;
  EXPECT_TRUE(areNeighbours(a, b, 1)); // twice as many micro-batches
  b.microBatch = 32;
  EXPECT_TRUE(areNeighbours(a, b, 1)); // as many
  b.microBatch = 8;
  EXPECT_FALSE(areNeighbours(a, b, 1));
}

TEST(Neighbours, ShardsWithinANodeAreOneValueOfAKey) {
  Strategy a;
  a.dp = 12;
  a.tp = 2;
  a.zero = 3;
  a.hybridShard = 4;
  a.microBatch = 2;
  Strategy b = a;
  b.dp = 24;
  b.tp = 1;
  b.hybridShard = 8;
  b.microBatch = 1;
  EXPECT_TRUE(areNeighbourBlocks(a, b, 1));
  b.hybridShard = 1;
  EXPECT_FALSE(areNeighbourBlocks(a, b, 1));
  EXPECT_TRUE(areNeighbourBlocks(a, b, 2));
}

} // namespace
} // namespace dpc::cost
