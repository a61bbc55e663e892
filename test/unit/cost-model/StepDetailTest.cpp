#include "cost-model/report/StepDetail.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace dpc;
using namespace dpc::cost;

static Cluster oneLevel() {
  Cluster cluster;
  cluster.levels.push_back({.name = "wire"});
  return cluster;
}

static StepDetail someDetail() {
  StepDetail detail;
  detail.stepSeconds = 2;
  detail.labels = {"all_reduce over tp"};
  DetailPhase forward{
      "forward", 0.25, {{0, 0.1}, {0.1, 0.2}}, {{0.2, 0.25, 0}}, {}};
  DetailPhase backward{"backward", 0.75, {{0, 0.75}}, {}, {}};
  detail.stages.push_back({{forward, backward},
                           {{0, 0, 0}, {1, 0, 0.25}, {0, 1, 1}, {1, 1, 1.25}}});
  detail.traffic = {{0, 0, 2, 0.1, {4096}}};
  MemoryBreakdown bytes;
  bytes[MemoryCategory::Workspace] = 100;
  detail.memory = {{0, bytes}, {0.5, bytes}};
  return detail;
}

TEST(StepDetail, TimesAreTicks) {
  auto json = detailToJson(someDetail(), oneLevel())["timeline"];
  double tick = json["tick_seconds"];
  EXPECT_DOUBLE_EQ(json["step_ticks"].get<double>() * tick, 2);
  const auto &stage = json["stages"][0];
  const auto &last = stage["entries"].back();
  double end = last[2].get<double>() +
               stage["phases"][last[0].get<size_t>()]["ticks"].get<double>();
  EXPECT_DOUBLE_EQ(end * tick, 2);
  // Two intervals of computation without a gap are joined.
  EXPECT_EQ(stage["phases"][0]["compute"].size(), 1u);
  EXPECT_EQ(stage["phases"][0]["communication"][0][2], 0);
}

TEST(StepDetail, LongStepsHaveLongerTicks) {
  StepDetail detail = someDetail();
  detail.stepSeconds = 1e5;
  auto json = detailToJson(detail, oneLevel())["timeline"];
  EXPECT_LT(json["step_ticks"].get<double>(), 1e9);
  EXPECT_NEAR(json["step_ticks"].get<double>() *
                  json["tick_seconds"].get<double>(),
              1e5, 1e-3);
}

TEST(StepDetail, StagesAreLeftOutIfThereAreTooManyEntries) {
  StepDetail detail = someDetail();
  detail.stages[0].entries.assign(4000, {0, 0, 0});
  detail.stages.assign(64, detail.stages[0]);
  auto json = detailToJson(detail, oneLevel())["timeline"];
  EXPECT_EQ(json["stage_count"], 64);
  EXPECT_LT(json["stages"].size(), 10u);
  EXPECT_EQ(json["stages"].front()["stage"], 0);
  EXPECT_EQ(json["stages"].back()["stage"], 63);
}

TEST(StepDetail, ThePeakIsAlwaysShown) {
  StepDetail detail = someDetail();
  MemoryMoment moment = detail.memory[0];
  detail.memory.assign(10000, moment);
  detail.memory[7777].bytes[MemoryCategory::Gradients] = 900;
  auto json = detailToJson(detail, oneLevel())["memory"];
  EXPECT_LE(json["at"].size(), 500u);
  int64_t most = 0;
  for (const auto &bytes : json["bytes"]["gradients"])
    most = std::max<int64_t>(most, bytes);
  EXPECT_EQ(most, 900);
}

TEST(StepDetail, TrafficByLevel) {
  auto json = detailToJson(someDetail(), oneLevel())["traffic"];
  ASSERT_EQ(json.size(), 1u);
  EXPECT_EQ(json[0]["what"], "all_reduce over tp");
  EXPECT_EQ(json[0]["bytes_per_level"]["wire"], 4096);
}
