#include "runtime/observe/Trace.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace dpc;
using namespace dpc::rt;

/// Returns a plan for one rank. A step runs a phase of two instructions
/// `entries` times.
static Plan planOf(size_t entries) {
  Plan plan;
  Instruction product;
  product.name = "matmul";
  MatmulOp op;
  op.m = 64;
  op.n = 32;
  op.k = 16;
  product.op = op;
  Instruction named = product;
  named.name = "/h.0/fc";
  plan.phases["forward"] = {product, named};
  plan.schedule = {std::vector<ScheduleEntry>(entries, {"forward", 0, {}})};
  return plan;
}

TEST(Trace, StepsAreRecordedUpToAMillionEvents) {
  EXPECT_EQ(eventsOfStep(planOf(5), 0), 10);
  EXPECT_EQ(stepsToTrace(planOf(5)), 100'000);
  EXPECT_EQ(stepsToTrace(planOf(150'000)), 3);
  EXPECT_EQ(stepsToTrace(planOf(900'000)), 2);
}

TEST(Trace, UnnamedGemmsHaveTheirSizes) {
  Plan plan = planOf(1);
  auto nameOf = [&](const Instruction &instruction) {
    TraceLane lane;
    lane.events = {{&instruction, &plan.schedule[0][0], 1, 0, 1}};
    auto json = nlohmann::json::parse("[" + traceEventsJson({lane}, 0) + "]");
    return json.back()["name"].get<std::string>();
  };
  std::vector<Instruction> &instructions = plan.phases["forward"];
  EXPECT_EQ(nameOf(instructions[0]), "matmul 64x32x16");
  EXPECT_EQ(nameOf(instructions[1]), "/h.0/fc");
  std::get<MatmulOp>(instructions[0].op).batch = 8;
  EXPECT_EQ(nameOf(instructions[0]), "matmul 8 of 64x32x16");
}
