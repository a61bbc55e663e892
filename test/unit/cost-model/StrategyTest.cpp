#include "cost-model/Strategy.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace dpc::cost;

static std::string errorOf(std::string_view text, int64_t ranks) {
  Result<StrategyRequest> request = parseStrategy(text, ranks);
  return request ? "no error" : request.error();
}

TEST(ParseStrategy, FixesWhatMultipliesOut) {
  Result<StrategyRequest> request = parseStrategy("dp=2,tp=4", 8);
  ASSERT_TRUE(request) << request.error();
  EXPECT_TRUE(request->isFixed());
  EXPECT_EQ(request->sp, false);
  request = parseStrategy("tp=4,sp=true", 4);
  ASSERT_TRUE(request) << request.error();
  EXPECT_EQ(request->dp, 1);
  EXPECT_EQ(request->sp, true);
  request = parseStrategy("dp=3", 3);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->tp, 1);
}

TEST(ParseStrategy, LeavesTheRestToTheSearch) {
  Result<StrategyRequest> request = parseStrategy("auto", 4);
  ASSERT_TRUE(request);
  EXPECT_FALSE(request->dp || request->tp || request->sp);
  request = parseStrategy("dp=2", 8);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->dp, 2);
  EXPECT_FALSE(request->isFixed());
  request = parseStrategy("micro_batch=2,sp=true", 8);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->microBatch, 2);
  EXPECT_TRUE(parseStrategy("auto", 1)->isFixed());
}

TEST(ParseStrategy, NeutralValuesOfOtherKeysAreAccepted) {
  EXPECT_EQ(errorOf("dp=4,pp=1,vpp=1,cp=1,cp_kind=ring,ep=1,zero=0,"
                    "hybrid_shard=1,schedule=1f1b,recompute=none,offload=none",
                    4),
            "no error");
}

TEST(ParseStrategy, MessagesSayWhatWouldBeAccepted) {
  EXPECT_EQ(errorOf("pp=2", 4),
            "--strategy: pp=2 is not available in this build: expected pp=1; "
            "dp, tp, sp, zero and micro_batch can be set");
  EXPECT_EQ(errorOf("dp=2,tp=4", 4),
            "--strategy: dp=2,tp=4 needs 2 x 4 ranks; expected dp x tp = 4, "
            "the ranks of the cluster");
  EXPECT_EQ(errorOf("dp=3", 4),
            "--strategy: dp=3 does not divide the 4 ranks of the cluster; "
            "expected dp x tp = 4");
  EXPECT_EQ(errorOf("dp=0", 4),
            "--strategy: dp=0: bad value; expected a whole number >= 1");
  EXPECT_EQ(errorOf("tp=2x2", 4),
            "--strategy: tp=2x2 is not available in this build: expected one "
            "whole number, such as tp=4");
  EXPECT_EQ(errorOf("sp=yes", 4),
            "--strategy: sp=yes: bad value; expected true or false");
  EXPECT_EQ(errorOf("zero=4", 4),
            "--strategy: zero=4: bad value; expected a whole number from 0 to "
            "3");
  EXPECT_EQ(errorOf("recompute=some", 4),
            "--strategy: recompute=some: bad value; expected one of none "
            "selective full");
  EXPECT_EQ(errorOf("dp=2,dp=2", 4),
            "--strategy: key 'dp' is given twice; expected once");
  EXPECT_EQ(errorOf("ddp=2", 4),
            "--strategy: unknown key 'ddp'; expected one of dp tp sp "
            "zero micro_batch pp vpp cp cp_kind ep hybrid_shard schedule "
            "recompute offload");
  EXPECT_EQ(errorOf("", 4),
            "--strategy: ''; expected auto or KEY=VALUE,... such as dp=2,tp=4");
  for (const char *text : {"dp", "=2", "dp=", "dp=2,", ",", "dp=99999999999",
                           "dp=9223372036854775807,tp=2", "tp=x", "tp=-1",
                           "dp=1e3", "offload=cpu", "schedule=zb-h1"})
    EXPECT_NE(errorOf(text, 4).find("expected"), std::string::npos) << text;
}

TEST(EnumerateStrategies, ZeroStagesWhereThereIsDataParallelism) {
  StrategySpace space;
  space.ranks = 4;
  space.globalBatch = 4;
  space.zeros = {0, 1, 3};
  int64_t stages = 0;
  for (const Strategy &strategy :
       enumerateStrategies(*parseStrategy("auto", 4), space)) {
    EXPECT_TRUE(strategy.zero == 0 || strategy.dp > 1);
    stages |= int64_t(1) << strategy.zero;
  }
  EXPECT_EQ(stages, 0b1011);
  // Fixed degrees mean stage 0 unless it is named; stage 2 is only tried then.
  EXPECT_EQ(enumerateStrategies(*parseStrategy("dp=4", 4), space)[0].zero, 0);
  EXPECT_EQ(
      enumerateStrategies(*parseStrategy("dp=4,zero=2", 4), space)[0].zero, 2);
}

TEST(EnumerateStrategies, AllFactorizationsInOrder) {
  StrategySpace space;
  space.ranks = 4;
  space.globalBatch = 8;
  std::vector<std::string> names;
  for (const Strategy &strategy : enumerateStrategies({}, space)) {
    EXPECT_EQ(strategy.ranks(), 4);
    names.push_back(stringifyStrategy(strategy));
  }
  EXPECT_EQ(
      names,
      (std::vector<std::string>{
          "dp=4,tp=1,micro_batch=2", "dp=4,tp=1,micro_batch=1",
          "dp=2,tp=2,micro_batch=4", "dp=2,tp=2,micro_batch=2",
          "dp=2,tp=2,micro_batch=1", "dp=2,tp=2,sp=true,micro_batch=4",
          "dp=2,tp=2,sp=true,micro_batch=2", "dp=2,tp=2,sp=true,micro_batch=1",
          "dp=1,tp=4,micro_batch=8", "dp=1,tp=4,micro_batch=4",
          "dp=1,tp=4,micro_batch=2", "dp=1,tp=4,micro_batch=1",
          "dp=1,tp=4,sp=true,micro_batch=8", "dp=1,tp=4,sp=true,micro_batch=4",
          "dp=1,tp=4,sp=true,micro_batch=2",
          "dp=1,tp=4,sp=true,micro_batch=1"}));
}

TEST(EnumerateStrategies, RequestsAndUnevenBatches) {
  StrategySpace space;
  space.ranks = 3;
  space.globalBatch = 8;
  StrategyRequest request = *parseStrategy("dp=3", 3);
  std::vector<Strategy> strategies = enumerateStrategies(request, space);
  ASSERT_EQ(strategies.size(), 3u); // 3 rows, then 2, then 1.
  EXPECT_EQ(strategies[0].microBatch, 3);
  EXPECT_EQ(strategies[1].microBatch, 2);
  request.microBatch = 100;
  strategies = enumerateStrategies(request, space);
  ASSERT_EQ(strategies.size(), 1u);
  EXPECT_EQ(strategies[0].microBatch, 3);
  space.maxTp = 1;
  EXPECT_EQ(enumerateStrategies({}, space).size(), 3u);
  // sp without tp is the same program.
  request = *parseStrategy("dp=3,sp=true", 3);
  EXPECT_FALSE(enumerateStrategies(request, space)[0].sp);
}

TEST(Strategy, JsonHasAllKeysInOrder) {
  std::vector<std::string> keys;
  nlohmann::ordered_json json = strategyToJson(Strategy());
  for (const auto &[key, value] : json.items())
    keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{
                      "dp", "tp", "pp", "vpp", "cp", "cp_kind", "ep", "sp",
                      "zero", "hybrid_shard", "schedule", "recompute",
                      "micro_batch", "offload"}));
}
