#include "cost-model/report/Report.h"
#include "cost-model/search/FormulaEstimate.h"
#include "cost-model/search/SearchSpace.h"
#include "test/unit/cost-model/ToySearch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>

using namespace dpc;
using namespace dpc::cost;
using testing::HasSubstr;

TEST(Search, FindsTheWinnerAndExplainsWhyOthersLose) {
  ToyEvaluator evaluator;
  SearchResult result = searchToy(evaluator);
  ASSERT_TRUE(result.hasWinner());
  // tp=1 needs 1600 bytes, more than a device has. tp=2 is faster than tp=4.
  EXPECT_EQ(stringifyStrategy(result.candidates[0].strategy),
            "dp=2,tp=2,micro_batch=4");
  EXPECT_TRUE(result.candidates[0].why.empty());
  for (size_t i = 1; i < result.candidates.size(); ++i)
    EXPECT_FALSE(result.candidates[i].why.empty());
  EXPECT_EQ(result.considered, 16);
  EXPECT_GE(result.pruned, 2);
}

TEST(Search, PruningNeverChangesTheWinner) {
  for (int64_t top : {1, 3, 10})
    for (double tightness : {0.0, 0.5, 1.0}) {
      ToyEvaluator evaluator;
      evaluator.tightness = tightness;
      SearchOptions options = optionsFor(4);
      options.top = top;
      SearchResult result = searchToy(evaluator, options);
      ASSERT_TRUE(result.hasWinner());
      EXPECT_EQ(stringifyStrategy(result.candidates[0].strategy),
                "dp=2,tp=2,micro_batch=4");
      EXPECT_LE(result.candidates.size(), size_t(top));
    }
}

TEST(Search, TightBoundsSaveEvaluations) {
  ToyEvaluator tight, loose;
  loose.tightness = 0;
  SearchOptions options = optionsFor(4);
  options.top = 1;
  searchToy(tight, options);
  searchToy(loose, options);
  EXPECT_LT(tight.calls, loose.calls);
  // The evaluated strategies are the winner, strategies that the formulas
  // prefer, and two baselines.
  EXPECT_LE(tight.calls, 6);
}

TEST(Search, ObjectivesDiffer) {
  ToyEvaluator evaluator;
  SearchOptions options = optionsFor(4);
  options.objective = Objective::Memory;
  SearchResult result = searchToy(evaluator, options);
  ASSERT_TRUE(result.hasWinner());
  EXPECT_EQ(result.candidates[0].strategy.tp, 4);
  EXPECT_EQ(result.candidates[0].strategy.microBatch, 1);
}

TEST(Search, IfNothingFitsTheNearestStrategyIsShown) {
  ToyEvaluator evaluator;
  evaluator.parameterBytes = 1e6;
  SearchResult result = searchToy(evaluator);
  EXPECT_FALSE(result.hasWinner());
  ASSERT_FALSE(result.candidates.empty());
  EXPECT_EQ(result.candidates[0].strategy.tp, 4);
  EXPECT_EQ(result.candidates[0].method, "graph");
  EXPECT_THAT(result.candidates[0].why, HasSubstr("memory 244 KiB > 1000 B"));
  EXPECT_EQ(result.bindingConstraint, "memory");
  EXPECT_EQ(result.bindingDetail, ""); // Nothing fits.
}

class OffloadEvaluator : public ToyEvaluator {
public:
  Evaluation evaluate(const Strategy &strategy) override {
    Evaluation evaluation = ToyEvaluator::evaluate(strategy);
    if (strategy.offload != Offload::Parameters &&
        strategy.offload != Offload::All)
      return evaluation;
    double &here = evaluation.memory[MemoryCategory::Parameters];
    (strategy.offloadTo == OffloadTarget::Disk ? evaluation.diskBytes
                                               : evaluation.hostBytes) = here;
    here = 0;
    evaluation.stepSeconds += 10;
    evaluation.exposedCommunicationSeconds += 10;
    evaluation.transferSeconds = 10;
    return evaluation;
  }
  Bounds bound(const Strategy &strategy) override {
    return {0, strategy.offload == Offload::None ||
                       strategy.offload == Offload::Optimizer
                   ? ToyEvaluator::bound(strategy).memoryBytes
                   : 0};
  }
};

TEST(Search, OffloadsOnlyWhatNeedsTooMuchMemory) {
  OffloadEvaluator evaluator;
  SearchOptions options = optionsFor(4);
  options.space.offload = true;
  SearchResult result = searchToy(evaluator, options);
  EXPECT_EQ(result.candidates[0].strategy.offload, Offload::None);
  for (const Candidate &candidate : result.candidates) {
    Strategy whole = candidate.strategy;
    whole.offload = Offload::None;
    EXPECT_TRUE(candidate.strategy.offload == Offload::None ||
                evaluator.evaluate(whole).memory.total() >
                    0.9 * result.memoryLimitBytes)
        << stringifyStrategy(candidate.strategy);
  }

  evaluator.parameterBytes = 1e5;
  result = searchToy(evaluator, options);
  ASSERT_TRUE(result.hasWinner());
  // Offloading the optimizer states is not enough, and offloading everything is
  // not necessary.
  EXPECT_EQ(result.candidates[0].strategy.offload, Offload::Parameters);
  EXPECT_GT(result.candidates[0].evaluation.hostBytes, 0);
  EXPECT_EQ(result.bindingConstraint, "memory");
  EXPECT_THAT(result.bindingDetail, HasSubstr(" a step needs "));

  options.request.offload = Offload::None;
  EXPECT_FALSE(searchToy(evaluator, options).hasWinner());
}

TEST(Search, OffloadsOnlyWhatTheRequestAccepts) {
  OffloadEvaluator evaluator;
  evaluator.parameterBytes = 1e5;
  SearchOptions options = optionsFor(4);
  options.space.offload = true;
  options.request.accepts = [](const Strategy &strategy) {
    return strategy.offload == Offload::None ||
           strategy.offload == Offload::All;
  };
  SearchResult result = searchToy(evaluator, options);
  ASSERT_TRUE(result.hasWinner());
  EXPECT_EQ(result.candidates[0].strategy.offload, Offload::All);

  options.request.accepts = [](const Strategy &strategy) {
    return strategy.offload == Offload::None;
  };
  EXPECT_FALSE(searchToy(evaluator, options).hasWinner());
}

TEST(Search, TransfersCanBindTheStep) {
  OffloadEvaluator evaluator;
  evaluator.parameterBytes = 100; // The parameters fit.
  SearchOptions options = optionsFor(4);
  options.request.offload = Offload::Parameters;
  EXPECT_EQ(searchToy(evaluator, options).bindingConstraint,
            "transfers to host memory");
  options.request.offloadTo = OffloadTarget::Disk;
  EXPECT_EQ(searchToy(evaluator, options).bindingConstraint,
            "transfers to disk");
}

TEST(Search, HostMemoryIsALimitToo) {
  OffloadEvaluator evaluator;
  evaluator.parameterBytes = 1e5;
  SearchOptions options = optionsFor(4);
  options.request.offload = Offload::Parameters;
  Cluster cluster = toyCluster(4);
  cluster.host.memoryBytes = 99e3; // tp=4 needs 25 kB per device.
  SearchResult result = searchStrategies(cluster, evaluator, options);
  ASSERT_FALSE(result.hasWinner());
  EXPECT_THAT(result.candidates[0].why, HasSubstr("of host memory"));
  options.request.offloadTo = OffloadTarget::Disk;
  EXPECT_TRUE(searchStrategies(cluster, evaluator, options).hasWinner());
}

TEST(Search, MemoryThatDevicesAndHostShareCountsOnce) {
  OffloadEvaluator evaluator;
  evaluator.parameterBytes = 1e5;
  SearchOptions options = optionsFor(4);
  options.space.offload = true;
  Cluster cluster = toyCluster(4);
  cluster.host.memoryBytes = 1e9;
  cluster.host.holdsDevices = true;
  // Host and devices share their memory, so the search offloads to disk.
  SearchResult result = searchStrategies(cluster, evaluator, options);
  ASSERT_TRUE(result.hasWinner());
  EXPECT_EQ(result.candidates[0].strategy.offloadTo, OffloadTarget::Disk);
  options.request.offload = Offload::All;
  options.request.offloadTo = OffloadTarget::Host;
  result = searchStrategies(cluster, evaluator, options);
  ASSERT_FALSE(result.hasWinner());
  EXPECT_THAT(result.candidates[0].why,
              HasSubstr(", offloaded 24.4 KiB among it"));
}

namespace {

class IdlePipeline : public ToyEvaluator {
public:
  explicit IdlePipeline(double bubble) : bubble(bubble) {}
  Evaluation evaluate(const Strategy &) override {
    Evaluation evaluation{.stepSeconds = 10,
                          .computeSeconds = 10 - 1 - 10 * bubble,
                          .exposedCommunicationSeconds = 1,
                          .bubbleFraction = bubble};
    evaluation.memory[MemoryCategory::Parameters] = 1;
    evaluation.bytesPerLevel = {100};
    evaluation.flops = 4e9;
    return evaluation;
  }
  Bounds bound(const Strategy &) override { return {}; }

private:
  double bubble;
};

} // namespace

TEST(Search, ABubbleCanBindTheStep) {
  SearchOptions options = optionsFor(4);
  for (auto [bubble, binds] :
       {std::pair(0.6, "pipeline bubble"), std::pair(0.3, "compute")}) {
    IdlePipeline evaluator(bubble);
    SearchResult result = searchToy(evaluator, options);
    EXPECT_EQ(result.bindingConstraint, binds);
  }
}

TEST(Search, RejectedStrategiesComeLastWithTheirReason) {
  ToyEvaluator evaluator;
  evaluator.rejectedTp = 2;
  SearchOptions options = optionsFor(4);
  options.top = 20;
  SearchResult result = searchToy(evaluator, options);
  ASSERT_TRUE(result.hasWinner());
  EXPECT_EQ(result.candidates[0].strategy.tp, 4);
  bool isSeen = false;
  for (const Candidate &candidate : result.candidates)
    isSeen |= candidate.why == "cannot be built" && !candidate.fits;
  EXPECT_TRUE(isSeen);
}

TEST(Search, BaselinesAreTheUsualOnes) {
  ToyEvaluator evaluator;
  SearchResult result = searchToy(evaluator);
  std::vector<std::string> names;
  names.reserve(result.baselines.size());
  for (const Baseline &baseline : result.baselines)
    names.push_back(baseline.name);
  EXPECT_EQ(names, (std::vector<std::string>{"single", "ddp", "zero1", "zero2",
                                             "zero3", "megatron-3d"}));
  EXPECT_EQ(result.baselines[1].candidate.method, "graph");
  EXPECT_FALSE(result.baselines[1].candidate.fits);
  EXPECT_THAT(result.baselines[1].candidate.why, HasSubstr("memory "));
  EXPECT_EQ(result.baselines[4].candidate.strategy.zero, 3);
  // A single device needs as much memory as each device with ddp.
  EXPECT_EQ(result.baselines[0].candidate.strategy.ranks(), 1);
  EXPECT_FALSE(result.baselines[0].candidate.fits);
  EXPECT_THAT(result.baselines[0].candidate.why, HasSubstr("memory "));
}

TEST(Search, TheSingleDeviceBaselineNeverWins) {
  ToyEvaluator evaluator;
  Cluster cluster = toyCluster(4);
  for (NodeGroup &group : cluster.groups)
    group.device.memoryBytes *= 100;
  SearchResult result = searchStrategies(cluster, evaluator, optionsFor(4));
  const Candidate &single = result.baselines.front().candidate;
  EXPECT_TRUE(single.fits);
  EXPECT_EQ(single.method, "graph");
  EXPECT_THAT(single.why, HasSubstr("slower"));
  for (const Candidate &candidate : result.candidates)
    EXPECT_EQ(candidate.strategy.ranks(), 4);
  for (const ParetoPoint &point : result.pareto.points())
    EXPECT_EQ(point.strategy.ranks(), 4);
  // On a single device, the baseline for one device is still listed.
  SearchResult alone = searchToy(evaluator, optionsFor(1));
  EXPECT_EQ(alone.baselines.front().candidate.strategy.ranks(), 1);
  EXPECT_EQ(alone.baselines.size(), 6U);
}

TEST(Search, MegatronIsEvaluatedIfItCanRun) {
  // A toy device has 1000 bytes, so the model needs tp x pp = 4.
  ToyEvaluator evaluator;
  SearchOptions options = optionsFor(8);
  auto megatron = [&] {
    return searchToy(evaluator, options).baselines.back().candidate;
  };
  for (int64_t maxPp : {1, 4})
    for (const std::vector<Recompute> &recomputes :
         {std::vector{Recompute::None}, {Recompute::None, Recompute::Full}}) {
      options.space.maxPp = maxPp;
      options.space.recomputes = recomputes;
      Candidate candidate = megatron();
      bool canRun = candidate.strategy.pp <= maxPp &&
                    (candidate.strategy.recompute == Recompute::None ||
                     recomputes.size() == 2);
      EXPECT_EQ(candidate.method, canRun ? "graph" : "formula");
    }
  EXPECT_EQ(megatron().method, "graph");
}

TEST(Search, FixedStrategiesAreTheOnlyCandidates) {
  ToyEvaluator evaluator;
  SearchOptions options = optionsFor(4);
  options.request = *parseStrategy("dp=1,tp=4,micro_batch=2", 4);
  SearchResult result = searchToy(evaluator, options);
  ASSERT_EQ(result.candidates.size(), 1u);
  EXPECT_TRUE(result.hasWinner());
  EXPECT_EQ(result.considered, 1);
}

TEST(Search, EvaluationsCanBeLimited) {
  ToyEvaluator evaluator;
  SearchOptions options = optionsFor(4);
  options.maxEvaluations = 2;
  SearchResult result = searchToy(evaluator, options);
  EXPECT_TRUE(result.hasWinner());
  EXPECT_LE(evaluator.calls, 6); // With baselines.
}

TEST(Search, TheSpaceHasTheSupportedKeys) {
  ModelTotals totals = ToyEvaluator().totals();
  using Kinds = std::vector<ScheduleKind>;
  using Recomputes = std::vector<Recompute>;
  StrategySpace space = spaceFor(totals, toyCluster(4));
  EXPECT_EQ(space.maxPp, 4);
  EXPECT_EQ(space.maxVpp, 4);
  EXPECT_EQ(space.zeros, (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(space.schedules,
            (Kinds{ScheduleKind::OneFOneB, ScheduleKind::Interleaved,
                   ScheduleKind::ZbH1}));
  EXPECT_EQ(space.recomputes, (Recomputes{Recompute::None, Recompute::Selective,
                                          Recompute::Full}));
  EXPECT_EQ(space.maxCp, 1);
  EXPECT_EQ(space.nodeRanks, 4);
  EXPECT_TRUE(space.grids && space.offload && space.idleStages);
  totals.gemms = {{.rowsPerSample = 16, .n = 8, .k = 8, .count = 2}};
  EXPECT_EQ(spaceFor(totals, toyCluster(4)).maxCp, 4);
  EXPECT_EQ(space.experts, 1);
  totals.experts = 8;
  EXPECT_EQ(spaceFor(totals, toyCluster(4)).experts, 8);
  EXPECT_TRUE(spaceFor(totals, toyCluster(4)).expertSpans.empty());
  EXPECT_EQ(spaceFor(totals, toyCluster(128)).expertSpans,
            std::vector<int64_t>{128});
  EXPECT_FALSE(spaceFor(totals, toyCluster(128)).idleStages);
  totals.training = false;
  space = spaceFor(totals, toyCluster(4));
  EXPECT_EQ(space.schedules, Kinds{ScheduleKind::OneFOneB});
  EXPECT_EQ(space.maxVpp, 1);
  EXPECT_EQ(space.recomputes, Recomputes{Recompute::None});
  EXPECT_EQ(space.zeros, std::vector<int64_t>{0});
  EXPECT_FALSE(space.offload);
}

/// For the formulas, sp changes nothing.
class PlainEvaluator : public ToyEvaluator {
public:
  ModelTotals totals() override {
    ModelTotals totals = ToyEvaluator::totals();
    totals.activationBytesPerSample = 0;
    return totals;
  }
};

TEST(Search, ChangesLeadFromMegatronToTheWinner) {
  PlainEvaluator evaluator;
  SearchOptions options = optionsFor(4);
  options.space = spaceOfDpAndTp(evaluator.totals(), toyCluster(4));
  options.request.sp = true;
  options.request.tp = 4;
  options.request.zero = 1;
  SearchResult result = searchToy(evaluator, options);
  ASSERT_TRUE(result.hasWinner());
  EXPECT_EQ(result.changedFrom, "megatron-3d");
  const std::vector<Change> &changes = result.changes;
  ASSERT_GE(changes.size(), 3U);
  // Each change sets one group of keys to the winner's values.
  const Evaluation &megatron = result.baselines.back().candidate.evaluation;
  const Evaluation &winner = result.candidates[0].evaluation;
  EXPECT_EQ(changes.front().stepSeconds, megatron.stepSeconds);
  EXPECT_EQ(changes.front().memoryBytes, megatron.memory.total());
  EXPECT_EQ(changes.back().stepSeconds, winner.stepSeconds);
  EXPECT_EQ(changes.back().memoryBytes, winner.memory.total());
  std::string all;
  for (const Change &change : changes)
    all += change.what + "; ";
  EXPECT_THAT(all, HasSubstr("sp false -> true"));
  std::string text = reportToText(toyCluster(4), result, {});
  EXPECT_THAT(text, HasSubstr("\n  changed from megatron-3d ("));
  EXPECT_THAT(text, HasSubstr("    sp false -> true: "));
  nlohmann::ordered_json json = reportToJson(toyCluster(4), result, {});
  EXPECT_EQ(json["chosen"]["changes"]["from"], "megatron-3d");
  EXPECT_EQ(json["chosen"]["changes"]["plans"].size(), changes.size());
}

namespace {

/// An evaluator for which tp is best as the outermost axis.
class PlacedEvaluator : public PlainEvaluator {
public:
  Evaluation evaluate(const Strategy &strategy) override {
    Evaluation evaluation = ToyEvaluator::evaluate(strategy);
    evaluation.decisions.order = {{"dp", strategy.dp}, {"tp", strategy.tp}};
    evaluation.decisions.isReordered = strategy.sp;
    evaluation.stepSeconds +=
        printValue(strategy.placement) == "dp.tp" ? 0 : 0.01;
    return evaluation;
  }
};

} // namespace

TEST(Search, ChangesOfThePlacementAreListed) {
  PlacedEvaluator evaluator;
  SearchOptions options = optionsFor(4);
  options.space = spaceOfDpAndTp(evaluator.totals(), toyCluster(4));
  options.request.sp = true;
  options.request.tp = 4;
  SearchResult result = searchToy(evaluator, options);
  std::string all;
  for (const Change &change : result.changes)
    all += change.what + "; ";
  EXPECT_THAT(all, HasSubstr("placement auto -> dp.tp"));

  // A requested placement is the last change.
  options.request.sp.reset();
  options.request.placement = PlacementSpec{{"dp", "tp"}, {}};
  result = searchToy(evaluator, options);
  ASSERT_TRUE(result.hasWinner());
  ASSERT_FALSE(result.changes.empty());
  EXPECT_EQ(result.changes.back().what, "placement auto -> dp.tp");
  EXPECT_EQ(result.changes.back().stepSeconds,
            result.candidates[0].evaluation.stepSeconds);
}

TEST(ParetoFront, TheEndsAreTheWinnersOfTheObjectives) {
  for (Objective objective : {Objective::Throughput, Objective::Memory}) {
    ToyEvaluator evaluator;
    SearchOptions options = optionsFor(4);
    evaluator.tightness = 0; // Evaluates all strategies.
    options.objective = objective;
    int64_t reports = 0;
    double best = 0;
    options.progress = [&](const SearchProgress &progress) {
      ++reports;
      EXPECT_LE(progress.done, progress.considered);
      best = progress.best;
    };
    SearchResult result = searchToy(evaluator, options);
    const std::vector<ParetoPoint> &points = result.pareto.points();
    ASSERT_GT(points.size(), 1U);
    for (size_t i = 1; i < points.size(); ++i) {
      EXPECT_GT(points[i].stepSeconds, points[i - 1].stepSeconds);
      EXPECT_LT(points[i].memoryBytes, points[i - 1].memoryBytes);
    }
    const Evaluation &winner = result.candidates[0].evaluation;
    bool isTime = objective == Objective::Throughput;
    EXPECT_EQ(isTime ? points.front().stepSeconds : points.back().memoryBytes,
              isTime ? winner.stepSeconds : winner.memory.total());
    EXPECT_GT(reports, 0);
    EXPECT_EQ(best, isTime ? winner.stepSeconds : winner.memory.total());
  }
}

TEST(Search, PipelinesAreConsidered) {
  ToyEvaluator evaluator;
  SearchOptions options = optionsFor(4);
  options.space = spaceOfDpAndTp(evaluator.totals(), toyCluster(4));
  options.space.maxPp = 4;
  options.request.pp = 2;
  SearchResult result = searchToy(evaluator, options);
  ASSERT_TRUE(result.hasWinner());
  EXPECT_EQ(result.candidates[0].strategy.pp, 2);
}

/// ZeRO 3 takes ten times as long as the formulas estimate.
class SlowZero3 : public ToyEvaluator {
public:
  Bounds bound(const Strategy &) override { return {}; }
  Evaluation evaluate(const Strategy &strategy) override {
    ++calls;
    zero3 += strategy.zero == 3;
    Evaluation truth = estimateByFormula(toyCluster(4), totals(), strategy);
    if (strategy.zero == 3)
      truth.stepSeconds *= 10;
    return truth;
  }
  int zero3 = 0;
};

TEST(Search, EvaluationsCorrectTheFormulas) {
  SlowZero3 evaluator;
  SearchOptions options = optionsFor(4);
  options.space.zeros = {3, 0};
  options.maxEvaluations = 3;
  SearchResult result = searchToy(evaluator, options);
  ASSERT_TRUE(result.hasWinner());
  // With ZeRO 3, only the baseline and at most one neighbour are evaluated.
  EXPECT_LE(evaluator.zero3, 2);
  EXPECT_NE(result.candidates[0].strategy.zero, 3);
}

TEST(Formula, MemoryOfZeroStagesByHand) {
  Cluster cluster = toyCluster(4);
  ToyEvaluator evaluator;
  ModelTotals totals = evaluator.totals();
  Strategy strategy;
  strategy.dp = 4;
  strategy.microBatch = 1;
  auto memory = [&](int64_t zero) {
    strategy.zero = zero;
    return estimateByFormula(cluster, totals, strategy).memory;
  };
  EXPECT_DOUBLE_EQ(memory(0).total(), 400 + 400 + 800 + 10);
  EXPECT_DOUBLE_EQ(memory(1)[MemoryCategory::Optimizer], 200);
  EXPECT_DOUBLE_EQ(memory(2)[MemoryCategory::Gradients], 100);
  EXPECT_DOUBLE_EQ(memory(3)[MemoryCategory::Parameters], 100);
  EXPECT_DOUBLE_EQ(memory(3)[MemoryCategory::Communication], 200);
}

/// Split experts without slots keep no rows, and gather tokens: each rank has
/// those of all four. Whole experts keep all.
TEST(Formula, SplitExpertsKeepNoRows) {
  Cluster cluster = toyCluster(4);
  ModelTotals totals = ToyEvaluator().totals();
  totals.hiddenBytesPerSample = 2;
  totals.expertRowBytesPerSample = 6;
  Strategy strategy;
  strategy.dp = 4;
  strategy.microBatch = 1;
  auto activations = [&] {
    return estimateByFormula(cluster, totals, strategy)
        .memory[MemoryCategory::Activations];
  };
  EXPECT_DOUBLE_EQ(activations(), 10);
  strategy.ep = 4;
  EXPECT_DOUBLE_EQ(activations(), 4);
  double gathered =
      estimateByFormula(cluster, totals, strategy).bytesPerLevel[0];
  totals.hiddenBytesPerSample = 0;
  // In 4 layers and 2 micro-batches, a token travels to and from 3 ranks,
  // forward and backward.
  EXPECT_DOUBLE_EQ(
      gathered - estimateByFormula(cluster, totals, strategy).bytesPerLevel[0],
      4 * 2 * 2 * 2 * 3 * 2);
}

TEST(Formula, HybridShardingGathersInsideANode) {
  // The network between the two nodes is a hundred times slower than the links
  // in a node.
  Cluster cluster = toyCluster(4);
  cluster.groups[0].nodes = 2;
  Level net = cluster.levels[0];
  net.name = "net";
  net.span = 8;
  net.bytesPerSecond /= 100;
  cluster.levels.push_back(net);
  Strategy strategy;
  strategy.dp = 8;
  strategy.zero = 3;
  strategy.microBatch = 1;
  ModelTotals totals = ToyEvaluator().totals();
  totals.flopsPerStep = 1; // No computation hides communication.
  auto exposed = [&] {
    return estimateByFormula(cluster, totals, strategy)
        .exposedCommunicationSeconds;
  };
  double everywhere = exposed();
  strategy.hybridShard = 4;
  // In the node, two all_gathers and one reduce_scatter move 300 of 400 bytes
  // each. Over the network, an all_reduce moves 100 bytes.
  EXPECT_NEAR(exposed(), 3 * 300 / 1e6 + 100 / 1e4, 1e-5);
  EXPECT_LT(exposed(), everywhere);
  // Over the network, a rank sends its shard of the gradients twice.
  Evaluation evaluation = estimateByFormula(cluster, totals, strategy);
  EXPECT_NEAR(evaluation.bytesPerLevel[1], totals.gradientBytes / 4, 1e-9);
}

TEST(Formula, PipelinesHaveABubble) {
  Cluster cluster = toyCluster(4);
  ModelTotals totals = ToyEvaluator().totals();
  Strategy strategy;
  strategy.pp = 4;
  strategy.microBatch = 1;
  Evaluation evaluation = estimateByFormula(cluster, totals, strategy);
  // With 8 micro-batches on 4 stages, 3 of 11 slots are idle.
  EXPECT_NEAR(evaluation.bubbleFraction, 3.0 / 11, 1e-9);
}
