//===- StagesTest.cpp - Cutting a program into pipeline stages ------------===//
#include "passes/shard/Stages.h"

#include <gtest/gtest.h>
#include <random>

using namespace dpc;

namespace {

using Doubles = std::vector<double>;
using Starts = std::vector<int64_t>;

double slowest(const StageProblem &problem, const Starts &starts) {
  Starts bounds = {0};
  bounds.insert(bounds.end(), starts.begin(), starts.end());
  bounds.push_back(problem.seconds[0].size());
  double worst = 0;
  for (size_t s = 0; s + 1 < bounds.size(); ++s) {
    double sum = s > 0 ? problem.cutSeconds[bounds[s] - 1] : 0;
    if (s + 2 < bounds.size())
      sum += problem.cutSeconds[bounds[s + 1] - 1];
    for (int64_t i = bounds[s]; i < bounds[s + 1]; ++i)
      sum += problem.seconds[problem.kinds[s]][i];
    worst = std::max(worst, sum);
  }
  return worst;
}

double bruteForce(const StageProblem &problem) {
  double best = std::numeric_limits<double>::infinity();
  int64_t ops = problem.seconds[0].size();
  for (int64_t bits = 0; bits < int64_t(1) << (ops - 1); ++bits) {
    Starts starts;
    for (int64_t i = 1; i < ops; ++i)
      if (bits >> (i - 1) & 1)
        starts.push_back(i);
    if (starts.size() + 1 == problem.kinds.size())
      best = std::min(best, slowest(problem, starts));
  }
  return best;
}

} // namespace

TEST(BalanceStages, OneStageHasNoCut) {
  EXPECT_TRUE(balanceStages({1, 2, 3}, {0, 0}, 1).empty());
}

TEST(BalanceStages, HeavyLossGetsItsOwnStage) {
  // The heavy loss gets a stage, and the three light layers share a stage.
  EXPECT_EQ(balanceStages({1, 1, 1, 3}, {0, 0, 0}, 2), Starts({3}));
}

TEST(BalanceStages, ExpensiveMessageIsAvoided) {
  EXPECT_EQ(balanceStages({1, 1, 1, 1}, {0, 5, 0}, 2), Starts({1}));
}

TEST(BalanceStages, AsManyStagesAsOps) {
  EXPECT_EQ(balanceStages({4, 1, 1}, {9, 9}, 3), Starts({1, 2}));
}

TEST(BalanceStages, EqualsBruteForce) {
  std::mt19937 random(1);
  std::uniform_int_distribution<int> value(0, 20), size(1, 9), speed(1, 4);
  for (int round = 0; round < 500; ++round) {
    int64_t ops = size(random), numKinds = 1 + round % 2;
    int64_t stages = std::uniform_int_distribution<int>(1, ops)(random);
    StageProblem problem;
    problem.seconds.resize(numKinds);
    for (int64_t i = 0; i < ops; ++i) {
      double own = value(random);
      problem.seconds[0].push_back(own);
      if (numKinds > 1)
        problem.seconds[1].push_back(own / speed(random));
      problem.cutSeconds.push_back(value(random) / 4.0);
    }
    problem.cutSeconds.resize(ops - 1);
    for (int64_t s = 0; s < stages; ++s)
      problem.kinds.push_back(random() % numKinds);
    Starts found = balanceStages(problem);
    ASSERT_EQ(static_cast<int64_t>(found.size()), stages - 1);
    EXPECT_TRUE(std::is_sorted(found.begin(), found.end()));
    EXPECT_DOUBLE_EQ(slowest(problem, found), bruteForce(problem));
  }
}

TEST(BalanceStages, StagesStayWithinTheirMemory) {
  StageProblem problem;
  problem.seconds = {{1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1}};
  problem.cutSeconds.assign(5, 0);
  problem.kinds = {0, 1};
  EXPECT_EQ(balanceStages(problem), Starts({3}));
  problem.room = {2, 6};
  EXPECT_EQ(balanceStages(problem), Starts({2}));
  problem.room = {2, 2}; // together too small, so ignored
  EXPECT_EQ(balanceStages(problem), Starts({3}));
}

namespace {

/// Returns an embedding of 9 s, `layers` layers with a GEMM of 1 s, attention
/// of 1 s and a GEMM of 3 s, and a head of 7 s.
StagedOps layered(int64_t layers) {
  StagedOps ops;
  auto add = [&](mlir::StringRef name, double seconds, double crossing) {
    ops.names.push_back(name);
    ops.seconds.push_back(seconds);
    ops.sums.emplace_back();
    ops.crossingBytes.push_back(crossing);
  };
  add("dpc.gather", 9, 1);
  for (int64_t i = 0; i < layers; ++i) {
    add("dpc.matmul", 1, 2);
    add("dpc.attention", 1, 2);
    add("dpc.matmul", 3, 1);
  }
  add("dpc.matmul", 7, 0);
  return ops;
}

cost::Cluster wire(int64_t pp) {
  cost::Cluster cluster;
  cluster.groups.push_back(cost::NodeGroup{1, pp, cost::Device()});
  cost::Level level;
  level.name = "wire";
  level.span = pp;
  level.bytesPerSecond = 1e9;
  cluster.levels.push_back(level);
  return cluster;
}

Starts equalStages(int64_t layers, int64_t pp) {
  cost::Cluster cluster = wire(pp);
  cluster.software.equalStages = true;
  LoweringSpec spec;
  spec.pp = pp;
  return chooseStageStarts(layered(layers), true, cluster, spec);
}

} // namespace

TEST(EqualStages, LayersOrAlsoEmbeddingAndHead) {
  // Each stage gets two layers, because the 9 s of the embedding do not count.
  EXPECT_EQ(equalStages(6, 3), Starts({7, 13}));
  // The embedding and the head count as one layer each, so the stages get one,
  // two and one of the four layers.
  EXPECT_EQ(equalStages(4, 3), Starts({4, 10}));
}

TEST(Stages, CountSumsOfGradientsForEachMicroBatch) {
  // 9 s for the embedding, 8 layers of 5 s, and 7 s for the head.
  StagedOps ops = layered(8);
  LoweringSpec spec;
  spec.pp = 2;
  spec.numMicroBatches = 4;
  EXPECT_EQ(chooseStageStarts(ops, true, wire(2), spec), Starts({13}));
  // Adding the gradient of the table to its sum takes 5 s in each of the three
  // other micro-batches, so the first stage gets two layers fewer.
  ops.sums.front() = {.writeSeconds = 2, .addSeconds = 3};
  EXPECT_EQ(ops.secondsFor(spec).front(), 9 + 3 * 5);
  EXPECT_EQ(ops.secondsFor(spec).back(), 7);
  EXPECT_EQ(chooseStageStarts(ops, true, wire(2), spec), Starts({8}));
  // Ranks of tp share the table. Those of dp have a copy each.
  spec.tp = 5;
  EXPECT_EQ(ops.secondsFor(spec).front(), 9 + 3 * 5);
  spec.dp = 2;
  EXPECT_EQ(ops.secondsFor(spec).front(), 9 + 2 * 3 * 5);
  spec.ep = 2;
  EXPECT_EQ(ops.secondsFor(spec).front(), 9);
  spec.ep = 1;
  spec.zero = 2; // Each of them has a half of the sum.
  EXPECT_EQ(ops.secondsFor(spec).front(), 9 + 3 * (2 * 2 + 3));
  spec.numMicroBatches = 1;
  EXPECT_EQ(ops.secondsFor(spec).front(), 9);
}
