#include "cost-model/report/JobCost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <random>

using namespace dpc;
using namespace dpc::cost;
using testing::HasSubstr;

static Cluster nodesOf(int64_t nodes) {
  Cluster cluster;
  Device device;
  device.boardWatts = 700;
  cluster.groups.push_back(NodeGroup{nodes, 8, device});
  cluster.levels = {{.name = "inner", .span = 8},
                    {.name = "outer", .span = 8 * nodes}};
  return cluster;
}

/// Returns the seconds of `work` seconds of steps with drawn failures. Failures
/// also end checkpoints and restarts.
static double drawJob(std::mt19937 &random, double work, double interval,
                      const Failures &failures) {
  std::exponential_distribution<double> untilFailure(1 / failures.between);
  double now = 0, failure = untilFailure(random), done = 0;
  auto lasts = [&](double seconds) { // whether no failure ends it
    bool isWhole = now + seconds <= failure;
    now = isWhole ? now + seconds : failure;
    if (!isWhole)
      failure = now + untilFailure(random);
    return isWhole;
  };
  while (done < work) {
    if (lasts(interval + failures.checkpoint)) {
      done += interval;
      continue;
    }
    while (!lasts(failures.restart)) {
    }
  }
  return now;
}

TEST(JobCost, TimeWithFailuresEqualsThatOfDraws) {
  std::mt19937 random(11);
  Failures failures{.between = 1000, .checkpoint = 20, .restart = 60};
  for (double interval : {100.0, 250.0}) {
    double work = 200 * interval, sum = 0;
    constexpr int kDraws = 400;
    for (int i = 0; i < kDraws; ++i)
      sum += drawJob(random, work, interval, failures);
    EXPECT_NEAR(sum / kDraws / secondsWithFailures(work, interval, failures), 1,
                0.01);
  }
}

TEST(JobCost, TheIntervalIsTheBest) {
  for (double checkpoint : {0.01, 1.0, 30.0, 600.0}) {
    Failures failures{.between = 3600, .checkpoint = checkpoint, .restart = 60};
    double best = bestCheckpointInterval(failures);
    double least = secondsWithFailures(1e6, best, failures);
    EXPECT_GT(secondsWithFailures(1e6, best * 1.05, failures), least);
    EXPECT_GT(secondsWithFailures(1e6, best / 1.05, failures), least);
    if (checkpoint <= 1)
      EXPECT_NEAR(best / std::sqrt(2 * checkpoint * failures.between), 1, 0.02);
  }
}

TEST(JobCost, CountsStepsDevicesMoneyAndEnergy) {
  ModelTotals totals;
  totals.globalBatch = 100;
  totals.tokensPerSample = 1000;
  totals.training = false;
  JobTerms terms;
  terms.tokens = 1e9 + 1;
  terms.pricePerHour = 2;
  JobCost job = costOfJob(terms, nodesOf(4), totals, 0.36, 32);
  EXPECT_EQ(job.steps, 10001);
  EXPECT_EQ(job.devices, 32);
  EXPECT_NEAR(job.seconds, 3600.36, 1e-6);
  EXPECT_EQ(job.goodput(), 1); // Inference has no checkpoints.
  EXPECT_NEAR(job.deviceHours(), 32 * 1.0001, 1e-9);
  EXPECT_NEAR(job.price(), 64 * 1.0001, 1e-9);
  EXPECT_NEAR(job.joules, 700 * 32 * 3600.36, 1e-3);
  auto json = jobToJson(job);
  EXPECT_FALSE(json.contains("checkpoint_interval_seconds"));
  EXPECT_EQ(json["price"], job.price());
  EXPECT_EQ(
      jobText(job, "tokens"),
      "job of 1B tokens: 1 h on 32 devices, 32 device-hours, price 64, at most "
      "22.4 kWh for the devices");
}

TEST(JobCost, TrainingHasFailuresAndCheckpoints) {
  ModelTotals totals;
  totals.globalBatch = 100;
  totals.tokensPerSample = 1000;
  totals.parameterBytes = 4e9;
  totals.optimizerBytes = 8e9;
  JobTerms terms;
  terms.tokens = 1e10;
  terms.deviceFailureSeconds = 32 * 7200.0;
  Cluster cluster = nodesOf(4);
  JobCost job = costOfJob(terms, cluster, totals, 1, 32);
  EXPECT_EQ(job.failures.between, 7200);
  // 12 GB by 32 devices with 0.122 GB/s each.
  EXPECT_NEAR(job.failures.checkpoint, 3.072, 1e-9);
  EXPECT_EQ(job.failures.restart, kRestartSeconds);
  EXPECT_EQ(job.seconds,
            secondsWithFailures(1e5, job.checkpointInterval, job.failures));
  EXPECT_LT(job.goodput(), 1 - kRestartSeconds / 7200);
  EXPECT_THAT(jobText(job, "tokens"),
              HasSubstr("a failure every 2 h, a restart takes 10 min, a "
                        "checkpoint of 3.07 s after every 3.4"));
  terms.checkpointSeconds = 60;
  JobCost slower = costOfJob(terms, cluster, totals, 1, 32);
  EXPECT_EQ(slower.failures.checkpoint, 60);
  EXPECT_GT(slower.seconds, job.seconds);
  EXPECT_EQ(jobToJson(slower)["checkpoint_seconds"], 60);
  // Idle devices are paid, but their failures do not end the job.
  JobCost half = costOfJob(terms, cluster, totals, 1, 16);
  EXPECT_EQ(half.failures.between, 14400);
  EXPECT_EQ(half.devices, 32);
  EXPECT_LT(half.seconds, slower.seconds);
  // More failures than work: a job that never ends has no number.
  terms.deviceFailureSeconds = 32 * 0.1;
  JobCost endless = costOfJob(terms, cluster, totals, 1, 32);
  EXPECT_EQ(jobText(endless, "tokens"),
            "job of 10B tokens: never ends on 32 devices, because a failure "
            "ends the steps every 0.1 s");
  EXPECT_FALSE(jobToJson(endless).contains("seconds"));
}

TEST(JobCost, ReadsAmountsAndDurations) {
  EXPECT_EQ(parseAmount("15T"), 15e12);
  EXPECT_EQ(parseAmount("1.5B"), 1.5e9);
  EXPECT_EQ(parseAmount("2K"), 2000);
  EXPECT_EQ(parseAmount("1e9"), 1e9);
  for (const char *bad :
       {"", "T", "-1B", "0", "1Q", "nan", "inf", "1 B", "1e300T"})
    EXPECT_FALSE(parseAmount(bad)) << bad;
  EXPECT_EQ(parseDuration("30d"), 30 * 86400);
  EXPECT_EQ(parseDuration("1.5h"), 5400);
  EXPECT_EQ(parseDuration("10m"), 600);
  EXPECT_EQ(parseDuration("90s"), 90);
  for (const char *bad : {"", "d", "30", "-1d", "0s", "1w", "infd"})
    EXPECT_FALSE(parseDuration(bad)) << bad;
  EXPECT_EQ(formatDuration(41.2 * 86400), "41.2 days");
  EXPECT_EQ(formatDuration(1080), "18 min");
  EXPECT_EQ(formatDuration(4000 * 86400.0), "4000 days");
  EXPECT_EQ(formatAmount(15e12), "15T");
  EXPECT_EQ(formatAmount(1234), "1.23K");
  EXPECT_EQ(formatAmount(12), "12");
}

TEST(JobCost, ClustersAreColumns) {
  ClusterAnswer first, second, none;
  first.devices = 64;
  first.plan.change = "a.json";
  first.plan.strategy.dp = 64;
  first.plan.stepSeconds = 2;
  first.plan.tokensPerSecond = 1.25e6;
  second = first;
  second.plan.change = "larger.json";
  second.devices = 512;
  none.devices = 8;
  none.plan.change = "c.json";
  none.plan.why = "nothing fits";
  Lines lines;
  Block block = clustersBlock({first, second, none}, "tokens", {});
  append(lines, block.fit(block.lines()));
  EXPECT_EQ(joinLines(lines, {}),
            "  clusters\n"
            "                 devices    step  tokens/s\n"
            "    a.json            64  2.00 s     1.25M  dp=64,tp=1\n"
            "    larger.json      512  2.00 s     1.25M  dp=64,tp=1,ranks=64\n"
            "    c.json             8                    nothing fits\n");
  EXPECT_EQ(clustersBlock({}, "tokens", {}).lines(), 0U);
  auto json = clusterAnswerToJson(none);
  EXPECT_EQ(json["cluster"], "c.json");
  EXPECT_EQ(json["why"], "nothing fits");
}
