#include "cost-model/strategy/StrategyShrink.h"

#include <gtest/gtest.h>

using namespace dpc;
using namespace dpc::cost;

static std::string shrunk(const std::string &text, int64_t ranks,
                          int64_t globalBatch, int64_t maxRanks) {
  Expected<StrategyRequest> request = parseStrategy(text, ranks);
  if (!request)
    return request.message();
  StrategySpace space;
  space.ranks = ranks;
  space.globalBatch = globalBatch;
  std::vector<Strategy> all = enumerateStrategies(*request, space);
  if (all.empty())
    return "no such strategy";
  ShrunkStrategy small = shrinkStrategy(all.front(), globalBatch, maxRanks);
  return stringifyStrategy(small.strategy) + " " +
         std::to_string(small.globalBatch);
}

TEST(StrategyShrink, KeepsDegreesOfFewRanks) {
  EXPECT_EQ(shrunk("dp=3,tp=2,zero=2", 6, 6, 16), "dp=3,tp=2,zero=2 6");
  EXPECT_EQ(shrunk("tp=3", 3, 1, 16), "dp=1,tp=3 1");
}

TEST(StrategyShrink, HalvesTheLargestFirst) {
  EXPECT_EQ(shrunk("dp=64,tp=8,pp=32,micro_batch=1", 16384, 1024, 16),
            "dp=2,tp=2,pp=4,micro_batch=1 16");
  EXPECT_EQ(shrunk("dp=1024", 1024, 1024, 16), "dp=16,tp=1 16");
  EXPECT_EQ(shrunk("dp=2,cp=2,tp=2,pp=2,micro_batch=1", 16, 8, 4),
            "dp=2,tp=2,pp=2,cp=2,cp_kind=ring,micro_batch=1 8");
}

TEST(StrategyShrink, KeepsGrids) {
  EXPECT_EQ(shrunk("dp=16,tp=4x8", 512, 64, 8), "dp=2,tp=2x2 4");
}

TEST(StrategyShrink, KeepsWhatInnerDegreesDivide) {
  EXPECT_EQ(shrunk("dp=64,zero=3,hybrid_shard=8", 64, 64, 8),
            "dp=8,tp=1,zero=3,hybrid_shard=4 8");
  EXPECT_EQ(shrunk("dp=64,tp=4,zero=3,hybrid_shard=8", 256, 64, 2),
            "dp=4,tp=2,zero=3,hybrid_shard=2 4");
  EXPECT_EQ(shrunk("dp=64,ep=64", 64, 64, 8), "dp=8,tp=1,ep=8 8");
  EXPECT_EQ(shrunk("dp=16,tp=8,ep=32", 128, 16, 8), "dp=2,tp=4,ep=8 2");
}

TEST(StrategyShrink, KeepsUnevenBatches) {
  EXPECT_EQ(shrunk("dp=4,micro_batch=3", 4, 40, 16),
            "dp=4,tp=1,micro_batch=2 15");
  EXPECT_EQ(shrunk("dp=4", 4, 7, 16), "dp=4,tp=1 7");
}
