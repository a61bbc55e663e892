//===- TargetForecastTest.cpp - The plan under other software -------------===//
#include "tools/driver/Exports.h"

#include <gtest/gtest.h>

using namespace dpc;

TEST(TargetForecast, SaysWhereThePlanDoesNotFit) {
  constexpr double kGibi = 1024.0 * 1024 * 1024;
  cost::SearchResult found;
  found.memoryLimitBytes = 80 * kGibi;
  EXPECT_FALSE(forecastOf("megatron", "megatron-core-2024", found));
  cost::Candidate plan;
  plan.evaluation.stepSeconds = 3;
  plan.evaluation.memory[cost::MemoryCategory::Optimizer] = 90 * kGibi;
  found.candidates = {plan};
  auto forecast = forecastOf("megatron", "megatron-core-2024", found);
  ASSERT_TRUE(forecast);
  EXPECT_FALSE(forecast->fits());
  cost::Evaluation here = plan.evaluation;
  here.stepSeconds = 2;
  here.memory[cost::MemoryCategory::Optimizer] = 70 * kGibi;
  EXPECT_EQ(forecastText(*forecast, here),
            "--emit=megatron: with megatron-core-2024 the plan is expected to "
            "take 3.00 s a step and 90.0 GiB of 80.0 GiB; with dpc-run, 2.00 s "
            "and 70.0 GiB; it does not fit there: "
            "--for=megatron searches for a plan that does");
  // The memory limit of the device takes precedence over the limit of the
  // search.
  found.candidates[0].evaluation.memoryLimitBytes = 100 * kGibi;
  EXPECT_TRUE(forecastOf("megatron", "megatron-core-2024", found)->fits());
  found.candidates[0].evaluation.rejected = "it cannot be cut";
  EXPECT_FALSE(forecastOf("megatron", "megatron-core-2024", found));
}

TEST(TargetForecast, OnlyWhereAProfileIsForTheCluster) {
  cost::Cluster cluster;
  cluster.groups = {{1, 8, *cost::loadDevice("h100-sxm-80gb")}};
  auto theirs = clusterRunBy(cluster, "megatron-core-2024", "bf16");
  ASSERT_TRUE(theirs);
  EXPECT_EQ(theirs->software.name, "megatron-core-2024");
  EXPECT_FALSE(clusterRunBy(*theirs, "megatron-core-2024", "bf16"));
  EXPECT_FALSE(clusterRunBy(cluster, "megatron-core-2024", "fp32"));
  EXPECT_FALSE(clusterRunBy(cluster, "", "bf16"));
  cluster.groups[0].device.attentionForward = 0; // as on CPUs
  EXPECT_FALSE(clusterRunBy(cluster, "megatron-core-2024", "bf16"));
}
