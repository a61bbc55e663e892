#include "cost-model/search/PredictionErrors.h"

#include "cost-model/machine/Cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <random>

using namespace dpc;
using namespace dpc::cost;
using testing::HasSubstr;

static Situation on(const std::string &device, int64_t capability) {
  Situation at;
  at.device = device;
  at.software = "megatron-core-2025";
  at.precision = "bf16";
  at.capability = capability;
  at.ranks = 64;
  return at;
}

static MeasuredError run(const std::string &source, const Situation &at,
                         double time) {
  return {source, at, time, std::nullopt};
}

TEST(PredictionErrors, DistanceCountsWhatDiffers) {
  Situation h100 = on("h100-sxm-80gb", 90), h200 = on("h200-sxm-141gb", 90),
            b200 = on("b200-sxm-180gb", 100);
  EXPECT_EQ(distanceOf(h100, h100), 0);
  EXPECT_GT(distanceOf(h100, h200), 0);
  EXPECT_GT(distanceOf(h100, b200), distanceOf(h100, h200));
  EXPECT_EQ(distanceOf(h100, b200), distanceOf(b200, h100));
  // GB300 is of B200's generation.
  EXPECT_EQ(distanceOf(b200, on("gb300-nvl72-288gb", 103)),
            distanceOf(h100, h200));
  Situation fp8 = h100, fp16 = h100, larger = h100;
  fp8.precision = "fp8";
  fp16.precision = "fp16";
  larger.ranks = 128;
  EXPECT_GT(distanceOf(h100, fp8), distanceOf(h100, fp16));
  EXPECT_NEAR(distanceOf(h100, larger), 0.08, 1e-12);
}

TEST(PredictionErrors, IntervalsFollowTheNearestSources) {
  Situation h100 = on("h100-sxm-80gb", 90), a100 = on("a100-sxm-80gb", 80);
  std::vector<MeasuredError> errors;
  for (int source = 0; source < 4; ++source)
    for (int i = 0; i < 5; ++i) {
      // Predictions for A100 are 2 % off, and those for H100 30 % too slow.
      errors.push_back(run("a" + std::to_string(source), a100,
                           0.02 * (i - 2) / 2 + 0.01 * (source - 1.5)));
      errors.push_back(run("h" + std::to_string(source), h100,
                           -0.3 + 0.1 * (i - 2) + 0.05 * (source - 1.5)));
    }
  ErrorDistribution time(errors, Quantity::Time);
  ErrorInterval known = time.intervalAt(a100), other = time.intervalAt(h100);
  EXPECT_LT(known.high / known.low, 1.5);
  EXPECT_GT(other.high / other.low, known.high / known.low);
  EXPECT_LT(std::sqrt(other.low * other.high), 0.85); // Corrects the offset.
  EXPECT_NEAR(std::sqrt(known.low * known.high), 1, 0.05);
  // Nothing near was measured.
  Situation cpu = on("cpu-local", 0);
  cpu.software = "dpc";
  cpu.precision = "fp32";
  cpu.isMixture = true;
  ErrorInterval far = time.intervalAt(cpu);
  EXPECT_GT(far.high / far.low, known.high / known.low);
  EXPECT_GT(other.withinSource, known.withinSource);
  // No run has its memory.
  EXPECT_FALSE(ErrorDistribution(errors, Quantity::Memory).isKnown());
  EXPECT_EQ(ErrorDistribution(errors, Quantity::Memory).intervalAt(a100).high,
            1);
}

TEST(PredictionErrors, IntervalsContainRunsOfNewSources) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  Situation at = on("h100-sxm-80gb", 90);
  std::vector<MeasuredError> seen;
  for (int source = 0; source < 40; ++source) {
    double offset = 0.2 * normal(random);
    for (int i = 0; i < 10; ++i)
      seen.push_back(
          run(std::to_string(source), at, offset + 0.1 * normal(random)));
  }
  ErrorDistribution time(seen, Quantity::Time);
  Coverage coverage = time.leaveSourcesOut();
  EXPECT_EQ(coverage.rows, 400);
  EXPECT_NEAR(coverage.share(), kIntervalShare, 0.01);
  ErrorInterval interval = time.intervalAt(at);
  // 90 % of a normal distribution: 1.645 standard deviations on either side.
  EXPECT_NEAR(std::log(interval.high / interval.low),
              2 * 1.645 * std::hypot(0.2, 0.1), 0.15);
  EXPECT_NEAR(interval.withinSource, 0.1, 0.02);
  int64_t inside = 0, drawn = 4000;
  for (int64_t i = 0; i < drawn; ++i) {
    double error = std::exp(0.2 * normal(random) + 0.1 * normal(random));
    inside += error >= interval.low && error <= interval.high;
  }
  EXPECT_NEAR(static_cast<double>(inside) / static_cast<double>(drawn), 0.9,
              0.03);
}

TEST(PredictionErrors, ChanceOfFirstEqualsThatOfDraws) {
  std::vector<double> seconds = {1.0, 1.02, 1.05, 1.3};
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  int first = 0, draws = 200'000;
  for (int i = 0; i < draws; ++i) {
    std::vector<double> drawn = seconds;
    for (double &time : drawn)
      time *= std::exp(0.05 * normal(random));
    first += drawn.front() == *std::min_element(drawn.begin(), drawn.end());
  }
  EXPECT_NEAR(chanceOfFirst(seconds, 0.05), double(first) / draws, 0.005);
  EXPECT_NEAR(chanceOfFirst({1, 1}, 0.1), 0.5, 1e-6);
  EXPECT_EQ(chanceOfFirst({1}, 0.1), 1);
  EXPECT_EQ(chanceOfFirst({1, 2}, 0), 1);
  EXPECT_EQ(chanceOfFirst({2, 1}, 0), 0);
}

TEST(PredictionErrors, ThinnedSourcesKeepTheirSpread) {
  std::vector<MeasuredError> errors;
  errors.reserve(1001);
  for (int i = 0; i < 1000; ++i)
    errors.push_back(run("many", on("a", 80), i));
  errors.push_back(run("few", on("a", 80), 5));
  std::vector<MeasuredError> kept = thinned(errors, 40);
  ASSERT_EQ(kept.size(), 41U);
  EXPECT_EQ(*kept.front().time, 0);
  EXPECT_EQ(*kept[1].time, 25);
  EXPECT_EQ(*kept[39].time, 975);
  EXPECT_EQ(kept.back().source, "few");
}

TEST(PredictionErrors, TablesAreReadAsWritten) {
  Situation at = on("h100-sxm-80gb", 90);
  at.isMixture = at.splitsExperts = at.shardsParameters = true;
  std::vector<MeasuredError> errors = {run("x", at, 0.25)};
  errors.push_back({"y", on("a100-sxm-40gb", 80), std::nullopt, -0.1});
  auto read = errorsFromJson(errorsToJson(errors), "runs.json");
  ASSERT_TRUE(read) << read.message();
  ASSERT_EQ(read->size(), 2U);
  EXPECT_EQ(distanceOf((*read)[0].situation, at), 0);
  EXPECT_EQ((*read)[0].time, 0.25);
  EXPECT_FALSE((*read)[0].memory);
  EXPECT_FALSE((*read)[1].time);
  EXPECT_EQ((*read)[1].memory, -0.1);
  nlohmann::json other = errorsToJson(errors);
  other["columns"].erase(0);
  EXPECT_THAT(errorsFromJson(other, "runs.json").message(),
              HasSubstr("runs.json: not a table of errors"));
  other = errorsToJson(errors);
  other["rows"][1][5] = "many";
  EXPECT_THAT(errorsFromJson(other, "runs.json").message(),
              HasSubstr("runs.json: row 2: "));
}

TEST(PredictionErrors, TheBuiltInTableCoversMeasuredRuns) {
  auto errors = loadMeasuredErrors();
  ASSERT_TRUE(errors) << errors.message();
  for (Quantity quantity : {Quantity::Time, Quantity::Memory}) {
    Coverage coverage = ErrorDistribution(*errors, quantity).leaveSourcesOut();
    EXPECT_GT(coverage.rows, 80);
    EXPECT_GT(coverage.share(), 0.85);
    EXPECT_LT(coverage.share(), 0.96);
  }
}
