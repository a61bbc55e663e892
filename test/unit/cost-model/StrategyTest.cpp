#include "cost-model/strategy/Strategy.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

using namespace dpc;
using namespace dpc::cost;

static std::string errorOf(std::string_view text, int64_t ranks) {
  Expected<StrategyRequest> request = parseStrategy(text, ranks);
  return request ? "no error" : request.message();
}

static std::vector<std::string> strategiesOf(std::string_view text,
                                             const StrategySpace &space) {
  Expected<StrategyRequest> request = parseStrategy(text, space.ranks);
  if (!request)
    return {request.message()};
  std::vector<std::string> names;
  for (const Strategy &strategy : enumerateStrategies(*request, space)) {
    EXPECT_EQ(strategy.ranks(), space.ranks);
    names.push_back(stringifyStrategy(strategy));
  }
  return names;
}

static StrategySpace spaceOf(int64_t ranks, int64_t globalBatch,
                             int64_t maxPp = 1) {
  StrategySpace space;
  space.ranks = ranks;
  space.globalBatch = globalBatch;
  space.maxPp = maxPp;
  return space;
}

TEST(ParseStrategy, FixesWhatMultipliesOut) {
  Expected<StrategyRequest> request = parseStrategy("dp=2,tp=4", 8);
  ASSERT_TRUE(request) << request.message();
  EXPECT_TRUE(request->isFixed());
  EXPECT_EQ(request->sp, false);
  request = parseStrategy("tp=4,sp=true", 4);
  ASSERT_TRUE(request) << request.message();
  EXPECT_EQ(request->dp, 1);
  EXPECT_EQ(request->sp, true);
  request = parseStrategy("dp=3", 3);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->tp, 1);
}

TEST(ParseStrategy, LeavesTheRestToTheSearch) {
  Expected<StrategyRequest> request = parseStrategy("auto", 4);
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
  EXPECT_EQ(
      errorOf("dp=2,tp=4", 4),
      "--strategy: dp=2,tp=4 needs 2 x 4 ranks; expected dp x tp x pp x cp "
      "= 4, the ranks of the cluster");
  EXPECT_EQ(errorOf("dp=3", 4),
            "--strategy: dp=3 does not divide the 4 ranks of the cluster; "
            "expected dp x tp x pp x cp = 4 (ranks=3 leaves devices idle)");
  EXPECT_EQ(errorOf("dp=0", 4),
            "--strategy: dp=0: bad value; expected a whole number >= 1");
  EXPECT_EQ(errorOf("tp=2x0", 4),
            "--strategy: tp=2x0: bad value; expected a whole number >= 1, or a "
            "grid such as 2x2");
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
            "--strategy: unknown key 'ddp'; expected one of dp tp pp "
            "vpp cp cp_kind ep sp zero hybrid_shard schedule recompute "
            "micro_batch offload offload_to placement batch_shares tp_overlap "
            "ranks");
  EXPECT_EQ(errorOf("", 4),
            "--strategy: ''; expected auto or KEY=VALUE,... such as dp=2,tp=4");
  for (const char *text : {"dp", "=2", "dp=", "dp=2,", ",", "dp=99999999999",
                           "dp=9223372036854775807,tp=2", "tp=x", "tp=-1",
                           "dp=1e3", "offload=cpu", "schedule=zb-h2"})
    EXPECT_NE(errorOf(text, 4).find("expected"), std::string::npos) << text;
}

TEST(ParseStrategy, AllKeysTogether) {
  auto request = parseStrategy("pp=2,dp=2,schedule=gpipe,recompute=full,"
                               "offload=optimizer,zero=1,hybrid_shard=2,ep=2",
                               4);
  ASSERT_TRUE(request) << request.message();
  EXPECT_TRUE(request->isFixed());
  EXPECT_EQ(request->pp, 2);
  EXPECT_EQ(request->tp, 1);
  EXPECT_EQ(request->schedule, ScheduleKind::GPipe);
  EXPECT_EQ(request->recompute, Recompute::Full);
  EXPECT_EQ(request->offload, Offload::Optimizer);
  EXPECT_EQ(request->hybridShard, 2);
  EXPECT_EQ(request->ep, 2);
  EXPECT_EQ(request->vpp, 1);
  request = parseStrategy("pp=2,vpp=2", 2);
  ASSERT_TRUE(request) << request.message();
  EXPECT_EQ(request->schedule, ScheduleKind::Interleaved);
  request = parseStrategy("cp=4,cp_kind=ulysses", 4);
  ASSERT_TRUE(request) << request.message();
  EXPECT_EQ(request->cpKind, CpKind::Ulysses);
  EXPECT_EQ(request->dp, 1);
}

TEST(ParseStrategy, GridsOfTensorParallelism) {
  auto request = parseStrategy("tp=2x3,dp=2", 12);
  ASSERT_TRUE(request) << request.message();
  EXPECT_EQ(request->tp, 6);
  EXPECT_EQ(request->tp->grid, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(strategiesOf("tp=2x2x2,micro_batch=1", spaceOf(8, 8)),
            (std::vector<std::string>{"dp=1,tp=2x2x2,micro_batch=1"}));
  // Factors of 1 are dropped.
  request = parseStrategy("tp=1x4x1", 4);
  ASSERT_TRUE(request) << request.message();
  EXPECT_EQ(request->tp, 4);
  EXPECT_TRUE(request->tp->grid.empty());
  for (const char *text : {"tp=2x", "tp=x2", "tp=2x0", "tp=2xx2", "tp=2x2x2x2",
                           "tp=4294967296x4294967296"}) {
    request = parseStrategy(text, 16);
    ASSERT_FALSE(request) << text;
    EXPECT_NE(request.message().find("bad value; expected"), std::string::npos)
        << request.message();
  }
}

TEST(ParseStrategy, EveryKeyIsInEveryList) {
  Strategy strategy;
  nlohmann::json json = strategyToJson(strategy);
  std::string help = describeKeys();
  size_t count = 0;
  visitKeys([&](const KeyInfo &key, auto field) {
    ++count;
    std::string name(key.name);
    EXPECT_TRUE(json.contains(name)) << name;
    EXPECT_NE(help.find("  " + name + "="), std::string::npos) << name;
    EXPECT_FALSE(key.help.empty()) << name;
    // micro_batch=0 is the only printed value that cannot be parsed.
    if (name != "micro_batch") {
      auto value = field(strategy);
      EXPECT_TRUE(parseValue(key, printValue(field(strategy)), value)) << name;
      EXPECT_TRUE(value == field(strategy)) << name;
    }
    StrategyRequest request;
    field(request) = field(strategy);
    EXPECT_TRUE(request.allows(strategy, 8) || name == "micro_batch") << name;
  });
  EXPECT_EQ(json.size(), count);
}

TEST(ParseStrategy, CompleteStrategiesAreNeutralElsewhere) {
  auto strategy = parseCompleteStrategy("tp=2x4,vpp=2,pp=2");
  ASSERT_TRUE(strategy) << strategy.message();
  EXPECT_EQ(strategy->ranks(), 16);
  EXPECT_EQ(strategy->schedule, ScheduleKind::Interleaved);
  EXPECT_EQ(differenceOf(Strategy(), *strategy),
            "tp 1 -> 2x4, pp 1 -> 2, vpp 1 -> 2, schedule 1f1b -> interleaved");
  EXPECT_EQ(*parseCompleteStrategy(""), Strategy());
  EXPECT_EQ(*parseCompleteStrategy("auto"), Strategy());
  EXPECT_FALSE(parseCompleteStrategy("dp=2,hybrid_shard=2"));
  EXPECT_FALSE(parseCompleteStrategy("vpp=2"));
}

TEST(Keys, HaveAnEffectWhereTheKeyTheyNeedIsNotNeutral) {
  Strategy strategy;
  auto keysWithout = [&] {
    std::string names;
    visitKeys([&](const KeyInfo &key, auto) {
      if (!hasEffect(key, strategy))
        names += std::string(key.name) + " ";
    });
    return names;
  };
  EXPECT_EQ(keysWithout(), "cp_kind sp schedule offload_to tp_overlap ");
  strategy.tp = 2;
  strategy.offload = Offload::All;
  EXPECT_EQ(keysWithout(), "cp_kind schedule ");
  strategy.cp = strategy.pp = 2;
  EXPECT_EQ(keysWithout(), "");
}

TEST(Enumeration, TpOverlapIsTriedWhereTheSoftwareHasIt) {
  StrategySpace space = spaceOf(2, 2);
  using Names = std::vector<std::string>;
  EXPECT_EQ(strategiesOf("dp=1,tp=2,micro_batch=2,sp=false", space),
            Names{"dp=1,tp=2,micro_batch=2"});
  space.software.tensorChunks = 4;
  EXPECT_EQ(strategiesOf("tp=2,micro_batch=2,sp=false", space),
            Names{"dp=1,tp=2,micro_batch=2"}); // All keys follow from the text.
  Names open = strategiesOf("micro_batch=2,sp=false", space);
  EXPECT_EQ(std::ranges::count(open, "dp=1,tp=2,micro_batch=2"), 1);
  EXPECT_EQ(
      std::ranges::count(open, "dp=1,tp=2,micro_batch=2,tp_overlap=chunked"),
      1);
  EXPECT_EQ(std::ranges::count_if(open,
                                  [](const std::string &name) {
                                    return name.starts_with("dp=2") &&
                                           name.find("tp_overlap") !=
                                               std::string::npos;
                                  }),
            0);
}

TEST(Keys, NeedKeysThatExist) {
  std::set<std::string> names, needed;
  visitKeys([&](const KeyInfo &key, auto) {
    names.emplace(key.name);
    if (!key.needs.empty())
      needed.emplace(key.needs);
  });
  EXPECT_TRUE(std::ranges::includes(names, needed));
  nlohmann::ordered_json keys = keysToJson();
  ASSERT_EQ(keys.size(), names.size());
  EXPECT_EQ(keys[5].dump(), R"({"name":"cp_kind","neutral":"ring",)"
                            R"("needs":"cp","printed":true})");
  EXPECT_EQ(keys[1]["neutral"], 1);
}

TEST(ParseStrategy, ContradictionsSayWhy) {
  auto errorWith = [](std::string_view text, int64_t ranks) {
    auto request = parseStrategy(text, ranks);
    return request ? "no error" : request.message();
  };
  EXPECT_EQ(errorWith("dp=2,vpp=2", 2),
            "--strategy: vpp=2 needs pp > 1: chunks alternate between pipeline "
            "stages; expected vpp=1 or more stages");
  EXPECT_EQ(errorWith("pp=2,vpp=2,schedule=zb-h1", 2),
            "--strategy: vpp=2 needs schedule=interleaved: schedule=zb-h1 has "
            "one chunk per stage; expected vpp=1");
  EXPECT_EQ(errorWith("dp=4,zero=1,hybrid_shard=3", 4),
            "--strategy: hybrid_shard=3 does not divide dp=4; expected a "
            "divisor, the number of data-parallel ranks that ZeRO shards over");
  EXPECT_EQ(errorWith("dp=4,hybrid_shard=2", 4),
            "--strategy: hybrid_shard=2 needs zero=1, 2 or 3: zero=0 shards "
            "nothing");
  EXPECT_EQ(errorWith("dp=2,tp=2,ep=3", 4),
            "--strategy: ep=3 does not divide the 4 ranks of the cluster; "
            "expected a divisor, because these ranks share the experts");
  EXPECT_EQ(errorWith("dp=2,tp=8,ep=4", 16),
            "--strategy: ep=4 does not fit dp=2,tp=8; expected a divisor of "
            "dp, or tp times a divisor of dp");
  EXPECT_EQ(errorWith("dp=2,tp=2,ep=4", 4), "no error");
  EXPECT_EQ(
      errorWith("dp=8,zero=1,hybrid_shard=2,ep=4", 8),
      "--strategy: ep=4 does not fit hybrid_shard=2; expected a divisor, "
      "because the data-parallel ranks that share experts must also share "
      "optimizer states");
  EXPECT_EQ(errorWith("pp=3", 4),
            "--strategy: pp=3 does not divide the 4 ranks of the cluster; "
            "expected dp x tp x pp x cp = 4 (ranks=3 leaves devices idle)");
  EXPECT_EQ(errorWith("pp=2,cp=2,tp=3", 4),
            "--strategy: tp=3,pp=2,cp=2 needs 3 x 2 x 2 ranks; expected dp x "
            "tp x pp x cp = 4, the ranks of the cluster");
  for (const char *text :
       {"dp=2,schedule=gpipe", "dp=2,schedule=interleaved",
        "dp=2,cp_kind=ulysses", "dp=2,zero=1", "pp=2,schedule=interleaved"})
    EXPECT_EQ(errorWith(text, 2), "no error") << text;
}

TEST(ParseStrategy, FewerRanksThanDevices) {
  auto request = parseStrategy("ranks=6,dp=3,tp=2", 8);
  ASSERT_TRUE(request) << request.message();
  EXPECT_TRUE(request->isFixed());
  EXPECT_EQ(request->ranks, 6);
  Strategy strategy;
  strategy.dp = 3;
  EXPECT_FALSE(request->allows(strategy, 6));
  // A micro-batch that is larger than the rank's share of the batch counts as
  // the whole share.
  request = parseStrategy("dp=3,micro_batch=8", 3);
  strategy.microBatch = 2;
  EXPECT_TRUE(request->allows(strategy, 6));
  EXPECT_FALSE(request->allows(strategy, 12));
  request = parseStrategy("ranks=6,dp=3", 8);
  ASSERT_TRUE(request) << request.message();
  EXPECT_FALSE(request->tp);
  EXPECT_TRUE(request->namesRanks());
  EXPECT_FALSE(parseStrategy("zero=1", 8)->namesRanks());
  auto errorWith = [](std::string_view text) {
    auto request = parseStrategy(text, 8);
    return request ? "no error" : request.message();
  };
  EXPECT_EQ(errorWith("ranks=9"),
            "--strategy: ranks=9: bad value; expected a whole number from 1 to "
            "8, the devices of the cluster");
  EXPECT_EQ(errorWith("ranks=0"), "--strategy: ranks=0: bad value; expected a "
                                  "whole number >= 1");
  EXPECT_EQ(errorWith("ranks=6,dp=4"),
            "--strategy: dp=4 does not divide the 6 ranks; expected dp x tp x "
            "pp x cp = 6");
  EXPECT_EQ(errorWith("dp=3,tp=2"),
            "--strategy: dp=3,tp=2 needs 3 x 2 ranks; expected dp x tp x pp x "
            "cp = 8, the ranks of the cluster (ranks=6 leaves devices idle)");
}

TEST(StringifyStrategy, CanBeAskedForOnTheSameCluster) {
  Strategy strategy;
  strategy.dp = strategy.tp = 2;
  EXPECT_EQ(stringifyStrategy(strategy, 4), "dp=2,tp=2");
  EXPECT_EQ(stringifyStrategy(strategy, 8), "dp=2,tp=2,ranks=4");
  auto request = parseStrategy(stringifyStrategy(strategy, 8), 8);
  ASSERT_TRUE(request) << request.message();
  strategy.tp = 1;
  strategy.cp = 2;
  EXPECT_EQ(stringifyStrategy(strategy, 4), "dp=2,tp=1,cp=2,cp_kind=ring");
}

TEST(EnumerateStrategies, Pipelines) {
  EXPECT_EQ(strategiesOf("pp=2,dp=2,micro_batch=1", spaceOf(4, 8)),
            (std::vector<std::string>{"dp=2,tp=1,pp=2,micro_batch=1"}));
  // There are at least as many micro-batches as stages.
  EXPECT_EQ(strategiesOf("pp=4", spaceOf(4, 8)),
            (std::vector<std::string>{"dp=1,tp=1,pp=4,micro_batch=2",
                                      "dp=1,tp=1,pp=4,micro_batch=1"}));
  // vpp is searched: 4 layers allow 2 stages of 2 chunks.
  StrategySpace space = spaceOf(2, 4, 4);
  EXPECT_EQ(strategiesOf("pp=2,dp=1,schedule=interleaved", space),
            (std::vector<std::string>{
                "dp=1,tp=1,pp=2,vpp=2,schedule=interleaved,micro_batch=2",
                "dp=1,tp=1,pp=2,vpp=2,schedule=interleaved,micro_batch=1"}));
  std::vector<std::string> all = strategiesOf("auto", space);
  auto has = [&](const std::string &name) {
    return std::find(all.begin(), all.end(), name) != all.end();
  };
  EXPECT_TRUE(has("dp=2,tp=1,micro_batch=2"));
  EXPECT_TRUE(has("dp=1,tp=1,pp=2,micro_batch=1"));
  EXPECT_TRUE(has("dp=1,tp=1,pp=2,schedule=zb-h1,micro_batch=2"));
  EXPECT_TRUE(has("dp=1,tp=1,pp=2,vpp=2,schedule=interleaved,micro_batch=1"));
  EXPECT_FALSE(has("dp=1,tp=1,pp=2,micro_batch=4"));
  EXPECT_FALSE(has("dp=1,tp=1,pp=2,schedule=gpipe,micro_batch=1"));
  // More than 4 chunks must divide the 12 layers of a stage evenly.
  std::vector<std::string> chunks;
  for (int vpp : {2, 3, 4, 6, 12})
    chunks.push_back("dp=1,tp=1,pp=8,vpp=" + std::to_string(vpp) +
                     ",schedule=interleaved,micro_batch=1");
  EXPECT_EQ(strategiesOf("pp=8,dp=1,schedule=interleaved,micro_batch=1",
                         spaceOf(8, 48, 96)),
            chunks);
  // The bubble is only 7 / (4 x 256) of the time, so more chunks gain nothing.
  chunks.resize(3);
  EXPECT_EQ(strategiesOf("pp=8,dp=1,schedule=interleaved,micro_batch=1",
                         spaceOf(8, 256, 96)),
            chunks);
  // There are at most as many stages as layers.
  for (const std::string &name : strategiesOf("auto", spaceOf(4, 4, 3)))
    EXPECT_EQ(name.find("pp=4"), std::string::npos) << name;
}

TEST(Strategy, TextHasTheKeysThatSaySomething) {
  Strategy strategy;
  strategy.dp = 2;
  EXPECT_EQ(stringifyStrategy(strategy), "dp=2,tp=1");
  strategy.cpKind = CpKind::Ulysses;
  strategy.schedule = ScheduleKind::GPipe;
  strategy.sp = true;
  strategy.offloadTo = OffloadTarget::Disk;
  EXPECT_EQ(stringifyStrategy(strategy), "dp=2,tp=1");
  strategy.tp = strategy.pp = strategy.cp = 2;
  strategy.offload = Offload::All;
  EXPECT_EQ(stringifyStrategy(strategy),
            "dp=2,tp=2,pp=2,cp=2,cp_kind=ulysses,sp=true,schedule=gpipe,"
            "offload=all,offload_to=disk");
  strategy = {};
  strategy.cp = 2;
  EXPECT_EQ(stringifyStrategy(strategy), "dp=1,tp=1,cp=2,cp_kind=ring");
}

TEST(EnumerateStrategies, SequencesGridsAndNodes) {
  StrategySpace space = spaceOf(8, 8);
  auto countOf = [&](const std::string &part) {
    std::vector<std::string> names = strategiesOf("auto", space);
    return std::count_if(names.begin(), names.end(), [&](const auto &name) {
      return name.find(part) != std::string::npos;
    });
  };
  EXPECT_EQ(countOf("cp="), 0);
  EXPECT_EQ(countOf("x"), 0);
  space.maxCp = 2;
  EXPECT_GT(countOf("cp=2,cp_kind=ring,micro"), 0);
  EXPECT_EQ(countOf("cp=2,cp_kind=ring,micro"),
            countOf("cp=2,cp_kind=ulysses,micro"));
  EXPECT_EQ(countOf("cp=4"), 0);
  space.grids = true;
  EXPECT_GT(countOf("tp=2x2,"), 0);
  EXPECT_GT(countOf("tp=2x4,"), 0);
  EXPECT_GT(countOf("tp=2x2x2,"), 0);
  EXPECT_EQ(countOf("tp=4x2,"), 0);
  space.zeros = {0, 3};
  space.nodeRanks = 4;
  EXPECT_GT(countOf("dp=8,tp=1,zero=3,hybrid_shard=4,"), 0);
  EXPECT_GT(countOf("dp=4,tp=2,zero=3,hybrid_shard=2,"), 0);
  EXPECT_EQ(countOf("dp=2,tp=4,zero=3,hybrid"), 0);
  EXPECT_EQ(strategiesOf("tp=4,dp=2,micro_batch=1", space),
            (std::vector<std::string>{"dp=2,tp=4,micro_batch=1"}));
}

static std::vector<int64_t> epsOf(std::string_view text,
                                  const StrategySpace &space) {
  auto request = parseStrategy(text, space.ranks);
  std::set<int64_t> eps;
  for (const Strategy &strategy : enumerateStrategies(*request, space))
    eps.insert(strategy.ep);
  return {eps.begin(), eps.end()};
}

TEST(EnumerateStrategies, ExpertsOverUsefulRanks) {
  using Eps = std::vector<int64_t>;
  StrategySpace space = spaceOf(8, 8);
  auto openEp = [&](const std::string &degrees) {
    return epsOf(degrees, space);
  };
  EXPECT_EQ(openEp("auto"), Eps{1});
  space.experts = 4;
  EXPECT_EQ(openEp("auto"), (Eps{1, 2, 4}));
  space.experts = 16;
  EXPECT_EQ(openEp("auto"), (Eps{1, 2, 4, 8}));
  // With 4 experts, 3 ranks hold up to 2 experts each, as many as 2 ranks do,
  // so ep=3 is not tried. 6 and 12 are more than the number of experts.
  space = spaceOf(12, 12);
  space.experts = 4;
  auto request = *parseStrategy("dp=12,ep=1", 12);
  request.ep.reset();
  std::set<int64_t> eps;
  for (const Strategy &strategy : enumerateStrategies(request, space))
    eps.insert(strategy.ep);
  EXPECT_EQ(eps, (std::set<int64_t>{1, 2, 4}));
  // If dp is smaller than the number of experts, ep may span all of tp as well.
  space = spaceOf(4, 4);
  space.experts = 4;
  bool withTp = false;
  for (const std::string &name : strategiesOf("auto", space))
    withTp |= name.starts_with("dp=2,tp=2,ep=4,");
  EXPECT_TRUE(withTp);
  // On large clusters, only the largest ep of each link level is tried.
  space = spaceOf(64, 64);
  space.experts = 32;
  EXPECT_EQ(openEp("auto").size(), 6U);
  space.expertSpans = {8, 64};
  for (const Strategy &strategy : enumerateStrategies({}, space))
    if (strategy.dp == 32 && strategy.tp == 2)
      EXPECT_TRUE(strategy.ep == 1 || strategy.ep == 4 || strategy.ep == 32)
          << strategy.ep;
  // A fixed ep is kept.
  EXPECT_EQ(epsOf("dp=64,ep=2", space), Eps{2});
}

TEST(EnumerateStrategies, OnlyCombinationsThatWork) {
  StrategySpace space = spaceOf(4, 8);
  space.zeros = {0, 1, 3};
  for (const std::string &name : strategiesOf("hybrid_shard=2", space)) {
    EXPECT_EQ(name.find("dp=1"), std::string::npos) << name;
    EXPECT_NE(name.find("zero="), std::string::npos) << name;
  }
}

TEST(Strategy, MicroBatchesOfALocalBatch) {
  Strategy strategy;
  strategy.dp = 3;
  EXPECT_EQ(strategy.microBatches(8), 1);
  strategy.microBatch = 2; // Each rank has 3 samples.
  EXPECT_EQ(strategy.microBatches(8), 2);
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
  // If a text has degrees but no ZeRO stage, the stage is 0. Stage 2 is only
  // tried if the text names it.
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
  ASSERT_EQ(strategies.size(), 3u); // Micro-batches of 3, 2 and 1 samples.
  EXPECT_EQ(strategies[0].microBatch, 3);
  EXPECT_EQ(strategies[1].microBatch, 2);
  request.microBatch = 100;
  strategies = enumerateStrategies(request, space);
  ASSERT_EQ(strategies.size(), 1u);
  EXPECT_EQ(strategies[0].microBatch, 3);
  space.maxTp = 1;
  EXPECT_EQ(enumerateStrategies({}, space).size(), 3u);
  // Without tp, sp has no effect.
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
                      "micro_batch", "offload", "offload_to", "placement",
                      "batch_shares", "tp_overlap"}));
}
