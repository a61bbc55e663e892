//===- DeviceTraceTest.cpp - traces of the fake compared with the CPU's ---===//
#include "runtime/cuda/DeviceTrace.h"
#include "test/unit/cuda/DeviceRuns.h"
#include "test/unit/cuda/FakeBlas.h"
#include "test/unit/runtime/TestPlans.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace dpc::rt::test {
namespace {

using Json = nlohmann::json;

constexpr double kGemmMicroseconds = 7;

std::string cpuEvents(const Plan &plan, const RunRequest &asked) {
  SessionOptions options;
  options.trace = true;
  options.offloadDir = testing::TempDir();
  KernelLibrary none;
  auto session = Session::create(
      plan, none, makeLocalComms(static_cast<int>(plan.ranks()), {30}),
      options);
  EXPECT_TRUE(session.ok()) << session.status().message();
  Status status = runSteps(plan, **session, asked);
  EXPECT_TRUE(status.ok()) << status.message();
  return (*session)->traceEvents();
}

std::vector<Json> withoutTimes(const std::string &events) {
  Json all = Json::parse("[" + events + "]");
  std::vector<Json> out;
  for (Json &event : all) {
    event.erase("ts");
    event.erase("dur");
    if (event["args"].contains("gigaflops_per_second"))
      event["args"].erase("gigaflops_per_second");
    out.push_back(event);
  }
  return out;
}

/// Events of a queue do not overlap, and GEMMs have the duration of the fake.
void expectTimes(const std::string &events) {
  std::map<std::pair<int, int>, double> ends;
  for (const Json &event : Json::parse("[" + events + "]")) {
    if (event["ph"] != "X")
      continue;
    double begin = event["ts"], lasts = event["dur"];
    double &end = ends[{event["pid"], event["tid"]}];
    // Times are rounded to float or double seconds.
    EXPECT_GE(begin, end - 0.5) << event;
    EXPECT_GE(lasts, -0.01) << event;
    if (event["cat"] == "matmul")
      EXPECT_NEAR(lasts, kGemmMicroseconds, 0.1) << event;
    end = begin + lasts;
  }
  EXPECT_FALSE(ends.empty());
}

class DeviceTraceOf : public testing::TestWithParam<Ranks> {
protected:
  void SetUp() override { setFakeRoutines({kGemmMicroseconds}); }
  void TearDown() override { setFakeRoutines({3, 1, 2}); }

  static void expectCpuEvents(const Plan &plan, bool overlap = true) {
    RunRequest asked = request(8);
    DeviceWishes wishes;
    wishes.trace = true;
    wishes.overlap = overlap;
    auto result = runOnDevice(plan, GetParam(), asked, wishes);
    ASSERT_TRUE(result.ok()) << result.status().message();
    expectTimes(result->traceEvents);
    std::vector<Json> cpu = withoutTimes(cpuEvents(plan, asked));
    // With one process per rank, rank 0 records only its events.
    if (GetParam() == Ranks::Nccl)
      std::erase_if(cpu, [](const Json &event) { return event["pid"] != 0; });
    EXPECT_EQ(withoutTimes(result->traceEvents), cpu);
  }
};

TEST_P(DeviceTraceOf, EventsHaveTheOrderOfTheCpu) {
  expectCpuEvents(leastSquares(1, 1));
  expectCpuEvents(leastSquares(2, 2));
  expectCpuEvents(leastSquaresOffloaded(Space::Host, 2, 2));
}

/// Messages move in rounds, but a trace has them in the order of the plan.
TEST_P(DeviceTraceOf, MessagesHaveTheOrderOfThePlan) {
  expectCpuEvents(twoStages(1, 3));
  expectCpuEvents(twoStages(2, 2));
}

TEST_P(DeviceTraceOf, MatchesWithoutOverlap) {
  expectCpuEvents(leastSquares(2, 2), /*overlap=*/false);
}

INSTANTIATE_TEST_SUITE_P(Ranks, DeviceTraceOf,
                         testing::Values(Ranks::InProcess, Ranks::Nccl),
                         [](const auto &ranks) {
                           return ranks.param == Ranks::InProcess ? "InProcess"
                                                                  : "Nccl";
                         });

} // namespace
} // namespace dpc::rt::test
