#include "cost-model/search/IdleDevices.h"
#include "cost-model/report/Report.h"
#include "cost-model/search/SearchSpace.h"
#include "test/unit/cost-model/ToySearch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <deque>

using namespace dpc;
using namespace dpc::cost;
using testing::HasSubstr;

/// Returns a cluster with a slow network between nodes, and 1 GiB per device.
static Cluster nodesOf(int64_t nodes, int64_t inside) {
  Cluster cluster;
  cluster.name = "toy";
  Device device;
  device.name = "toy-device";
  device.peakFlops.fill(1e9);
  device.memoryBytes = 1 << 30;
  device.memoryBytesPerSecond = 1e9;
  cluster.groups.push_back(NodeGroup{nodes, inside, device});
  for (int64_t span : {inside, nodes * inside}) {
    bool isNet = span != inside;
    cluster.levels.push_back({.name = isNet ? "net" : "wire",
                              .span = span,
                              .bytesPerSecond = isNet ? 1e5 : 1e6});
  }
  return cluster;
}

TEST(IdleDevices, AllPartsOfFewDevicesAreTried) {
  using Parts = std::vector<ClusterPart>;
  EXPECT_EQ(partsToTry(nodesOf(1, 4)), (Parts{{1, 3}, {1, 2}, {1, 1}}));
  EXPECT_EQ(partsToTry(nodesOf(2, 2)), (Parts{{1, 2}, {2, 1}, {1, 1}}));
  EXPECT_EQ(partsToTry(nodesOf(1, 1)), Parts());
  EXPECT_EQ(partsOf(nodesOf(2, 4), 6), (Parts{{2, 3}}));
  EXPECT_EQ(partsOf(nodesOf(2, 4), 4), (Parts{{1, 4}, {2, 2}}));
  EXPECT_EQ(partsOf(nodesOf(2, 4), 8), (Parts{{2, 4}}));
  EXPECT_EQ(partsOf(nodesOf(2, 4), 7), Parts());
}

TEST(IdleDevices, PartsOfManyDevicesHaveRoundSizes) {
  std::vector<ClusterPart> parts = partsToTry(nodesOf(127, 8));
  EXPECT_EQ(parts.front(), (ClusterPart{126, 8}));
  EXPECT_EQ(parts[1], (ClusterPart{96, 8}));
  EXPECT_EQ(parts.back(), (ClusterPart{1, 1}));
  EXPECT_LT(parts.size(), 20U);
  EXPECT_LT(partsToTry(nodesOf(2048, 8)).size(), 30U);
}

TEST(IdleDevices, APartIsAClusterOfItsOwn) {
  Cluster cluster = nodesOf(3, 4);
  Cluster part = partOf(cluster, {2, 3});
  EXPECT_EQ(part.numDevices(), 6);
  EXPECT_EQ(part.devicesPerNode(), 3);
  EXPECT_EQ(part.levels[0].span, 3);
  EXPECT_EQ(part.levels[1].span, 6);
  // The same part of a larger cluster has the same spans.
  Cluster other = partOf(nodesOf(5, 8), {2, 3});
  for (size_t i = 0; i < part.levels.size(); ++i)
    EXPECT_EQ(part.levels[i].span, other.levels[i].span);
  // A rack joins two nodes. The first group has one node.
  cluster = nodesOf(4, 4);
  Level rack = cluster.levels[0];
  rack.span = 8;
  cluster.levels.insert(cluster.levels.begin() + 1, rack);
  cluster.groups.push_back(cluster.groups[0]);
  cluster.groups[0].nodes = 1;
  cluster.groups[1].nodes = 3;
  part = partOf(cluster, {3, 2});
  EXPECT_EQ(part.groups[0].nodes, 1);
  EXPECT_EQ(part.groups[1].nodes, 2);
  EXPECT_EQ(part.levels[1].span, 4);
  EXPECT_EQ(part.levels[2].span, 6);
}

static Cluster differentNodes(int64_t first, int64_t others, int64_t second) {
  Cluster cluster = nodesOf(1, first);
  cluster.groups.push_back(cluster.groups[0]);
  cluster.groups[1].nodes = others;
  cluster.groups[1].devicesPerNode = second;
  cluster.levels[0].span = std::min(first, second);
  cluster.levels[1].span = first + others * second;
  return cluster;
}

TEST(IdleDevices, NodesOfDifferentSizesKeepTheirDevices) {
  using Parts = std::vector<ClusterPart>;
  Cluster cluster = differentNodes(4, 1, 2);
  ASSERT_EQ(partsOf(cluster, 6), (Parts{{2, 4}}));
  EXPECT_TRUE(isWhole(cluster, partsOf(cluster, 6)[0]));
  EXPECT_EQ(partOf(cluster, {2, 4}).numDevices(), 6);
  // A node with fewer devices than `perNode` contributes all its devices.
  EXPECT_EQ(partsToTry(cluster),
            (Parts{{2, 3}, {1, 4}, {2, 2}, {1, 3}, {1, 2}, {2, 1}, {1, 1}}));
  EXPECT_EQ(partsOf(cluster, 5), (Parts{{2, 3}}));
  Cluster part = partOf(cluster, {2, 3});
  EXPECT_EQ(part.groups[0].devicesPerNode, 3);
  EXPECT_EQ(part.groups[1].devicesPerNode, 2);
  EXPECT_EQ(part.levels[0].span, 2);
  EXPECT_EQ(part.levels[1].span, 5);
  // The small nodes come first, so a part with one node has at most 2 devices.
  cluster = differentNodes(2, 2, 4);
  EXPECT_EQ(partsToTry(cluster), (Parts{{3, 3},
                                        {2, 4},
                                        {3, 2},
                                        {2, 3},
                                        {2, 2},
                                        {3, 1},
                                        {1, 2},
                                        {2, 1},
                                        {1, 1}}));
}

namespace {

/// A step on r ranks takes `work` / r + r - 1 seconds.
class Talkative : public Evaluator {
public:
  explicit Talkative(double work) : work(work) {}
  ModelTotals totals() override {
    ModelTotals totals;
    totals.globalBatch = 64;
    return totals;
  }
  Bounds bound(const Strategy &) override { return {}; }
  Evaluation evaluate(const Strategy &strategy) override {
    Evaluation evaluation;
    double ranks = double(strategy.ranks());
    evaluation.computeSeconds = work / ranks;
    evaluation.exposedCommunicationSeconds = ranks - 1;
    evaluation.stepSeconds = evaluation.computeSeconds + ranks - 1;
    evaluation.memory[MemoryCategory::Parameters] = 1;
    return evaluation;
  }

private:
  double work;
};

template <typename Make>
Expected<PartResult> searchWith(const Cluster &cluster, Make make,
                                const SearchOptions &common) {
  PartProblem problem;
  problem.evaluator = [&](const Cluster &) { return make(); };
  problem.options = [&](Evaluator &evaluator, const Cluster &part) {
    SearchOptions options = common;
    options.space = spaceOfDpAndTp(evaluator.totals(), part);
    return options;
  };
  return searchParts(cluster, common.request, problem);
}

Expected<PartResult> searchFor(const Cluster &cluster, double work,
                               const StrategyRequest &request = {}) {
  SearchOptions options;
  options.request = request;
  return searchWith(
      cluster, [&] { return std::make_unique<Talkative>(work); }, options);
}

} // namespace

TEST(IdleDevices, TheBestNumberOfDevicesIsUsed) {
  // work / r + r - 1 is smallest at r = sqrt(work).
  for (int64_t best : {1, 2, 3, 4}) {
    auto found = searchFor(nodesOf(1, 8), double(best * best));
    ASSERT_TRUE(found) << found.message();
    EXPECT_EQ(found->used.numDevices(), best);
    EXPECT_EQ(found->search.candidates[0].strategy.ranks(), best);
    EXPECT_THAT(found->search.idle,
                HasSubstr("the best plan on all 8 devices, dp="));
    // The candidates contain the best plan on all devices, and say why it lost.
    auto whole = std::ranges::find(
        found->search.candidates, 8,
        [](const Candidate &candidate) { return candidate.strategy.ranks(); });
    ASSERT_NE(whole, found->search.candidates.end());
    EXPECT_THAT(whole->why, HasSubstr("slower on all 8 devices"));
  }
  auto found = searchFor(nodesOf(1, 8), 1000);
  EXPECT_EQ(found->used.numDevices(), 8);
  EXPECT_EQ(found->search.idle, "");
}

TEST(IdleDevices, AllDevicesOfDifferentNodesAreUsed) {
  auto found = searchFor(differentNodes(4, 1, 2), 1000);
  ASSERT_TRUE(found) << found.message();
  EXPECT_EQ(found->used.numDevices(), 6);
  EXPECT_EQ(found->search.candidates[0].strategy.ranks(), 6);
  EXPECT_EQ(found->search.idle, "");
  StrategyRequest request;
  request.ranks = 7;
  found = searchFor(differentNodes(6, 1, 2), 4, request);
  ASSERT_TRUE(found) << found.message();
  EXPECT_EQ(found->used.numDevices(), 7);
  request.ranks = 9;
  found = searchFor(differentNodes(6, 1, 2), 4, request);
  ASSERT_FALSE(found);
  EXPECT_EQ(
      found.message(),
      "--strategy: ranks=9 does not divide evenly over nodes; expected 1 to 6 "
      "ranks on each of 1 to 2 nodes (smaller nodes with all their devices)");
}

TEST(IdleDevices, RequestedDevicesAreUsed) {
  StrategyRequest request;
  request.tp = 2;
  auto found = searchFor(nodesOf(1, 8), 4, request);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->used.numDevices(), 8);
  request = {};
  request.ranks = 6;
  found = searchFor(nodesOf(2, 4), 4, request);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->used.numDevices(), 6);
  EXPECT_EQ(found->used.devicesPerNode(), 3);
  request.ranks = 7;
  found = searchFor(nodesOf(2, 4), 4, request);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.message(),
            "--strategy: ranks=7 does not divide evenly over nodes; expected "
            "1 to 4 ranks on each of 1 to 2 nodes");
}

TEST(IdleDevices, TheReportSaysWhy) {
  Cluster cluster = nodesOf(1, 8);
  auto found = searchFor(cluster, 9);
  ASSERT_TRUE(found);
  std::string text = reportToText(cluster, found->search, {});
  EXPECT_THAT(
      text,
      HasSubstr("\nuses 3 of 8 devices: the best plan on all 8 devices, "));
  nlohmann::ordered_json json = reportToJson(cluster, found->search, {});
  EXPECT_EQ(json["chosen"]["devices"], 3);
  EXPECT_EQ(json["chosen"]["idle"], found->search.idle);
}

namespace {

/// Counts its calls and returns a shorter time in each call, so that no search
/// ends early.
class Improving : public Talkative {
public:
  Improving(int64_t &calls, int64_t &all)
      : Talkative(1), calls(calls), all(all) {}
  ModelTotals totals() override {
    ModelTotals totals = Talkative::totals();
    totals.globalBatch = 1 << 20;
    return totals;
  }
  Evaluation evaluate(const Strategy &strategy) override {
    ++calls;
    Evaluation evaluation = Talkative::evaluate(strategy);
    evaluation.computeSeconds = 0;
    evaluation.stepSeconds = std::pow(0.99, ++all);
    return evaluation;
  }

private:
  int64_t &calls, &all;
};

} // namespace

/// Removes the evaluator of the step on one device, which (I4) needs.
static void removeEvaluatorOfOne(std::deque<int64_t> &calls) {
  ASSERT_GT(calls.size(), 1u);
  EXPECT_EQ(calls[1], 1);
  calls.erase(calls.begin() + 1);
}

/// Returns how many strategies each search of `cluster` evaluated. Every part
/// has more strategies than the limit, `most`.
static std::deque<int64_t> callsOf(const Cluster &cluster, int64_t most) {
  std::deque<int64_t> calls;
  int64_t all = 0;
  SearchOptions options;
  options.maxEvaluations = most;
  auto found = searchWith(
      cluster,
      [&] { return std::make_unique<Improving>(calls.emplace_back(0), all); },
      options);
  EXPECT_TRUE(found) << found.message();
  return calls;
}

TEST(IdleDevices, PartsShareTheEvaluations) {
  constexpr int64_t kMost = 100, kLeast = 8;
  Cluster cluster = nodesOf(128, 8);
  std::deque<int64_t> calls = callsOf(cluster, kMost);
  EXPECT_GE(calls.front(), kMost);
  // The last searches repeat the parts whose results were close to the best.
  auto parts = static_cast<int64_t>(partsToTry(cluster).size());
  auto again = static_cast<int64_t>(calls.size()) - 1 - parts;
  EXPECT_GE(again, 1);
  EXPECT_LE(again, 3);
  EXPECT_EQ(calls[1], std::max(kLeast, kMost / parts));
  for (int64_t i = 1; i <= parts; ++i)
    EXPECT_LE(calls[i], calls[1]) << i;
  for (int64_t i = parts + 1; i <= parts + again; ++i)
    EXPECT_GT(calls[i], calls[1]) << i;
}

TEST(IdleDevices, TheClusterWithoutOneNodeIsSearchedFully) {
  constexpr int64_t kMost = 100;
  Cluster cluster = nodesOf(129, 8);
  ASSERT_EQ(partsToTry(cluster)[0], (ClusterPart{128, 8}));
  std::deque<int64_t> calls = callsOf(cluster, kMost);
  EXPECT_GE(calls[0], kMost);
  EXPECT_GE(calls[1], kMost);
  EXPECT_LT(calls[2], kMost);
}

namespace {

/// Half as many ranks take more than twice as long.
class Needy : public Talkative {
public:
  Needy(int64_t all, int64_t batch, int64_t &calls)
      : Talkative(1), all(double(all)), batch(batch), calls(calls) {}
  ModelTotals totals() override {
    ModelTotals totals;
    totals.globalBatch = batch;
    return totals;
  }
  Evaluation evaluate(const Strategy &strategy) override {
    ++calls;
    Evaluation evaluation = Talkative::evaluate(strategy);
    evaluation.computeSeconds = 0;
    evaluation.stepSeconds = 2 * all / double(strategy.ranks()) - 1;
    return evaluation;
  }

private:
  double all;
  int64_t batch;
  int64_t &calls;
};

std::deque<int64_t> callsOfNeedy(const Cluster &cluster, int64_t batch) {
  std::deque<int64_t> calls;
  SearchOptions options;
  options.maxEvaluations = 16; // Fewer than all strategies.
  options.baselines = false;
  auto found = searchWith(
      cluster,
      [&] {
        return std::make_unique<Needy>(cluster.numDevices(), batch,
                                       calls.emplace_back(0));
      },
      options);
  EXPECT_TRUE(found) << found.message();
  EXPECT_EQ(found->used.numDevices(), cluster.numDevices());
  removeEvaluatorOfOne(calls);
  return calls;
}

} // namespace

TEST(IdleDevices, SlowPartsEndTheSearch) {
  // 32, 24 and 16 devices take 1, 1.67 and 3 s. The first strategy of each part
  // shows this, so parts with 8 or fewer devices are skipped.
  std::deque<int64_t> calls = callsOfNeedy(nodesOf(4, 8), 32 * 8);
  ASSERT_EQ(calls.size(), 3u);
  EXPECT_GT(calls[0], 1);
  EXPECT_EQ(calls[1], 1);
  EXPECT_EQ(calls[2], 1);
  // With few devices or few samples, all parts are tried, and each search
  // evaluates more strategies.
  for (const auto &[cluster, batch] : {std::pair(nodesOf(2, 8), 32 * 8),
                                       std::pair(nodesOf(4, 8), 32 * 8 - 1)}) {
    calls = callsOfNeedy(cluster, batch);
    EXPECT_EQ(calls.size(), 1 + partsToTry(cluster).size());
    EXPECT_GT(calls[1], 1);
  }
}

namespace {

/// One device computes for 8 s, and all 8 devices take 1.5 s.
class Busy : public Talkative {
public:
  explicit Busy(int64_t &evaluators) : Talkative(1) { ++evaluators; }
  Evaluation evaluate(const Strategy &strategy) override {
    Evaluation evaluation = Talkative::evaluate(strategy);
    evaluation.computeSeconds = 8 / static_cast<double>(strategy.ranks());
    evaluation.stepSeconds = strategy.ranks() == 8 ? 1.5 : 10;
    return evaluation;
  }
};

} // namespace

TEST(IdleDevices, PartsThatComputeTooLongAreLeftOut) {
  SearchOptions options;
  options.maxEvaluations = 16; // Fewer than all strategies.
  options.baselines = false;
  int64_t evaluators = 0;
  auto found = searchWith(
      nodesOf(1, 8), [&] { return std::make_unique<Busy>(evaluators); },
      options);
  ASSERT_TRUE(found) << found.message();
  EXPECT_GT(found->search.skipped, 0);
  // All devices, one device, and parts of 7 and 6: 5 devices compute for 1.6 s.
  EXPECT_EQ(evaluators, 4);
}

namespace {

/// Without tensor parallelism, the best plan uses all devices. The best plan of
/// all uses tensor parallelism on half of the devices.
class HalfWithTensors : public Talkative {
public:
  HalfWithTensors() : Talkative(1) {}
  Evaluation evaluate(const Strategy &strategy) override {
    Evaluation evaluation = Talkative::evaluate(strategy);
    double seconds = 20;
    if (strategy.ranks() == 8 && strategy.tp == 1)
      seconds = 10;
    if (strategy.ranks() == 4)
      seconds = strategy.tp == 1 ? 10.5 : 9;
    evaluation.computeSeconds = 1;
    evaluation.stepSeconds = seconds;
    return evaluation;
  }
};

} // namespace

TEST(IdleDevices, PartsNearTheBestAreSearchedFully) {
  SearchOptions options;
  options.request.zero = 0;
  options.maxEvaluations = 16; // Fewer than all strategies.
  auto found = searchWith(
      nodesOf(1, 8), [] { return std::make_unique<HalfWithTensors>(); },
      options);
  ASSERT_TRUE(found) << found.message();
  EXPECT_GT(found->search.skipped, 0);
  EXPECT_EQ(found->used.numDevices(), 4);
  EXPECT_GT(found->search.candidates.front().strategy.tp, 1);
}
