#include "runtime/exec/Session.h"
#include "runtime/exec/RunPlan.h"
#include "test/unit/runtime/Expect.h"
#include "test/unit/runtime/TestPlans.h"

#include <chrono>
#include <cmath>
#include <gtest/gtest.h>
#include <thread>

namespace dpc::rt {
namespace {

using test::addBuffer;
using test::leastSquares;
using test::leastSquaresStep;
using test::ramp;
using test::twoStages;
using test::twoStagesStep;

HostTensor identity(int64_t size) {
  HostTensor eye = HostTensor::zeros(DType::F32, {size, size});
  for (int64_t i = 0; i < size; ++i)
    eye.set(i * (size + 1), 1);
  return eye;
}

void expectTensor(const RunResult &result, const std::string &name,
                  const HostTensor &expected) {
  for (int64_t i = 0; i < expected.elements(); ++i)
    EXPECT_NEAR(result.tensors.at(name).at(i), expected.at(i), 1e-6);
}

RunRequest leastSquaresRequest(int64_t rows) {
  RunRequest request;
  request.steps = 3;
  request.tensors = {{"w", ramp({4, 2}, 0.125, 0.5)}, {"eye", identity(4)}};
  request.inputs = {{{"x", ramp({rows, 4}, 1.0 / 32, 0.25)}},
                    {{"x", ramp({rows, 4}, -1.0 / 64, 0.125)}}};
  return request;
}

class LeastSquares : public testing::TestWithParam<std::tuple<int, int, int>> {
};

/// Results are equal for any number of ranks and micro-batches, even if they do
/// not divide the rows.
TEST_P(LeastSquares, MatchesOneDevice) {
  auto [ranks, microBatches, rows] = GetParam();
  Plan plan = leastSquares(ranks, microBatches, rows);
  RunRequest request = leastSquaresRequest(rows);
  HostTensor w = request.tensors["w"];
  std::vector<double> losses;
  for (int step = 0; step < 3; ++step)
    losses.push_back(leastSquaresStep(request.inputs[step % 2].at("x"), w));
  Expected<RunResult> result = runPlan(plan, ".", request);
  ASSERT_TRUE(result.ok()) << result.status().message();
  for (int step = 0; step < 3; ++step)
    EXPECT_NEAR(result->outputs[step]["loss"].at(0), losses[step],
                1e-5 * losses[step]);
  expectTensor(*result, "w", w);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, LeastSquares,
    testing::Values(std::tuple{1, 1, 8}, std::tuple{2, 1, 8},
                    std::tuple{3, 1, 8}, std::tuple{2, 2, 8},
                    std::tuple{3, 2, 7}, std::tuple{4, 1, 5},
                    std::tuple{4, 3, 16}));

TEST(Session, UnevenSharesMatchOneDevice) {
  using Shares = std::vector<int64_t>;
  for (const Shares &shares : {Shares{3, 1}, Shares{1, 3}, Shares{1, 2, 3}})
    for (int64_t rows : {16, 13}) {
      int64_t ranks = static_cast<int64_t>(shares.size());
      Plan longest = leastSquares(ranks, 3, rows);
      Plan plan = leastSquares(ranks, 2, rows);
      plan.mesh.batchShares = shares;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        plan.schedule[rank] = longest.schedule[rank];
        std::erase_if(plan.schedule[rank], [&](const ScheduleEntry &entry) {
          return entry.microBatch >= shares[rank];
        });
      }
      RunRequest request = leastSquaresRequest(rows);
      request.steps = 1;
      HostTensor w = request.tensors["w"];
      double loss = leastSquaresStep(request.inputs[0].at("x"), w);
      Expected<RunResult> result = runPlan(plan, ".", request);
      ASSERT_TRUE(result.ok()) << result.status().message();
      EXPECT_NEAR(result->outputs[0]["loss"].at(0), loss, 1e-5 * loss);
      expectTensor(*result, "w", w);
    }
}

class TwoStages : public testing::TestWithParam<std::tuple<int, int, int>> {};

/// Frames keep the activations of all micro-batches at once.
TEST_P(TwoStages, MatchesOneDevice) {
  auto [dp, microBatches, rows] = GetParam();
  RunRequest request;
  request.steps = 3;
  request.tensors = {{"a", ramp({4, 3}, 0.125, 0.5)},
                     {"b", ramp({3, 2}, -0.25, 0.5)},
                     {"eye", identity(4)},
                     {"eye.b", identity(3)}};
  request.inputs = {{{"x", ramp({rows, 4}, 1.0 / 32, 0.25)}},
                    {{"x", ramp({rows, 4}, -1.0 / 64, 0.125)}}};
  HostTensor a = request.tensors["a"], b = request.tensors["b"];
  std::vector<double> losses;
  for (int step = 0; step < 3; ++step)
    losses.push_back(twoStagesStep(request.inputs[step % 2].at("x"), a, b));
  Expected<RunResult> result =
      runPlan(twoStages(dp, microBatches, rows), ".", request);
  ASSERT_TRUE(result.ok()) << result.status().message();
  for (int step = 0; step < 3; ++step)
    EXPECT_NEAR(result->outputs[step]["loss"].at(0), losses[step],
                1e-5 * losses[step]);
  expectTensor(*result, "a", a);
  expectTensor(*result, "b", b);
}

INSTANTIATE_TEST_SUITE_P(Shapes, TwoStages,
                         testing::Values(std::tuple{1, 1, 8},
                                         std::tuple{1, 4, 8},
                                         std::tuple{2, 3, 8},
                                         std::tuple{3, 5, 11}));

TEST(Session, AStageThatSendsLateIsNamed) {
  Plan plan = twoStages(1, 2);
  plan.kernelFile = "none.so";
  plan.kernelHash = "0000000000000000";
  int grad = std::get<FillOp>(plan.phases["s0.setup"][0].op).buffer;
  KernelOp stall{"stall", {grad, grad}, {1}, {}};
  plan.phases["s0.setup"].push_back({Queue::Compute, {}, -1, "", 0, stall});
  KernelLibrary kernels = KernelLibrary::of(
      {{"stall", [](void *const *, const int64_t *) {
          std::this_thread::sleep_for(std::chrono::milliseconds(900));
        }}});
  RunRequest request;
  request.timeoutSeconds = 0.2;
  request.init = *InitChoice::parse("random:1");
  Expected<RunResult> result = runPlan(plan, ".", kernels, request);
  EXPECT_EQ(
      result.status().message(),
      "step 1, s1.forward of micro-batch 0, recv y (ledger line 0, group pp "
      "from=0): rank 1 waited 0.2 s in recv with tag 2 for rank 0");
}

TEST(Session, PoisonRevealsReadsOfPadding) {
  // On 4 ranks, 5 rows have padding. The plan also sums the padding.
  RunRequest request = leastSquaresRequest(5);
  request.poison = true;
  Expected<RunResult> result = runPlan(leastSquares(4, 1, 5), ".", request);
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(std::isnan(result->outputs[0]["loss"].at(0)));
  // 8 rows have no padding.
  request = leastSquaresRequest(8);
  request.poison = true;
  result = runPlan(leastSquares(4, 2, 8), ".", request);
  ASSERT_TRUE(result.ok());
  EXPECT_FALSE(std::isnan(result->outputs[2]["loss"].at(0)));
}

TEST(Session, KernelsGetPointersAndScalarsOfRankAndMicroBatch) {
  // The kernel writes the index of the first row of a shard to all elements of
  // the shard.
  Plan plan;
  plan.mesh = {{{"dp", 3}}, 2};
  plan.groups = {};
  Layout layout{{{{7, {"dp", "mb"}}}}};
  int64_t local = localShape(layout, plan.mesh)[0];
  int out = addBuffer(plan, "out", BufferKind::Output, {local});
  plan.kernelFile = "none.so";
  plan.kernelHash = "0000000000000000";
  plan.outputs = {{"rows", out, DType::F32, {7}, layout}};
  KernelOp op{"first_row",
              {out},
              {0},
              {{ScalarKind::Offset, 0, 7, {"dp", "mb"}},
               {ScalarKind::Const, local, 0, {}}}};
  plan.phases["forward"] = {{Queue::Compute, {}, -1, "", 0, op},
                            {Queue::Compute, {}, -1, "", 0, StoreOutputOp{0}}};
  plan.schedule.assign(3, {{"forward", 0, {}}, {"forward", 1, {}}});
  KernelLibrary kernels = KernelLibrary::of(
      {{"first_row", [](void *const *buffers, const int64_t *scalars) {
          for (int64_t i = 0; i < scalars[1]; ++i)
            static_cast<float *>(buffers[0])[i] =
                static_cast<float>(scalars[0]);
        }}});
  Expected<RunResult> result = runPlan(plan, ".", kernels, {});
  ASSERT_TRUE(result.ok()) << result.status().message();
  // dp=3 splits 7 into 3, 3 and 1; mb=2 splits 3 into 2 and 1.
  const double want[] = {0, 0, 2, 3, 3, 5, 6};
  for (int i = 0; i < 7; ++i)
    EXPECT_EQ(result->outputs[0]["rows"].at(i), want[i]) << i;

  Expected<RunResult> none = runPlan(plan, ".", KernelLibrary(), {});
  EXPECT_HAS(none.status().message(), "first_row");
}

TEST(Session, ScalarsFollowTheSchedule) {
  Plan plan;
  plan.trains = true;
  int lr = addBuffer(plan, "lr", BufferKind::Scalar, {});
  int step = addBuffer(plan, "step", BufferKind::Scalar, {});
  plan.scalars = {{"lr", lr}, {"step", step}};
  plan.outputs = {{"lr", lr, DType::F32, {}, {}},
                  {"step", step, DType::F32, {}, {}}};
  plan.lrSchedule = {LrKind::Linear, 1.0, 2, 6};
  plan.schedule = {{}};
  RunRequest request;
  request.steps = 4;
  Expected<RunResult> result = runPlan(plan, ".", request);
  ASSERT_TRUE(result.ok()) << result.status().message();
  const double want[] = {0, 0.5, 1, 0.75};
  for (int i = 0; i < 4; ++i) {
    EXPECT_FLOAT_EQ(result->outputs[i]["lr"].at(0), want[i]);
    EXPECT_EQ(result->outputs[i]["step"].at(0), i + 1);
  }
}

TEST(Session, TheLearningRateIgnoresSkippedSteps) {
  Plan plan;
  plan.trains = true;
  int lr = addBuffer(plan, "lr", BufferKind::Scalar, {});
  int skipped = addBuffer(plan, "skipped", BufferKind::Optimizer, {});
  Tensor state;
  state.name = state.slot = "skipped";
  state.role = TensorRole::State;
  state.buffer = skipped;
  state.init = InitKind::Value;
  state.value = 2;
  plan.tensors = {state};
  plan.scalars = {{"lr", lr, skipped}};
  plan.outputs = {{"lr", lr, DType::F32, {}, {}}};
  plan.lrSchedule = {LrKind::Linear, 1.0, 2, 6};
  plan.schedule = {{}};
  RunRequest request;
  request.steps = 5;
  Expected<RunResult> result = runPlan(plan, ".", request);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->tensors["skipped"].at(0), 2);
  // The first two steps are skipped; steps 3, 4 and 5 are updates 1, 2 and 3.
  EXPECT_FLOAT_EQ(result->outputs[2]["lr"].at(0), 0);
  EXPECT_FLOAT_EQ(result->outputs[3]["lr"].at(0), 0.5);
  EXPECT_FLOAT_EQ(result->outputs[4]["lr"].at(0), 1);
}

TEST(Session, ALateRankEndsTheRunAndIsNamed) {
  Plan plan = leastSquares(2, 1);
  plan.kernelFile = "none.so";
  plan.kernelHash = "0000000000000000";
  KernelOp stall{"stall", {5, 5}, {1}, {{ScalarKind::Coord, 0, 0, {"dp"}}}};
  plan.phases["setup"].push_back({Queue::Compute, {}, -1, "", 0, stall});
  KernelLibrary kernels = KernelLibrary::of(
      {{"stall", [](void *const *, const int64_t *scalars) {
          if (scalars[0] == 1)
            std::this_thread::sleep_for(std::chrono::milliseconds(900));
        }}});
  RunRequest request = leastSquaresRequest(8);
  request.timeoutSeconds = 0.2;
  Expected<RunResult> result = runPlan(plan, ".", kernels, request);
  EXPECT_EQ(result.status().message(),
            "step 1, reduce gradient (ledger line 0, group dp ranks=0,1): "
            "rank 0 waited 0.2 s in all_reduce for rank 1");
}

TEST(Session, RefusesAnotherNumberOfRanks) {
  Plan plan = leastSquares(4, 1);
  KernelLibrary kernels;
  auto session = Session::create(plan, kernels, makeLocalComms(2, {}), {});
  EXPECT_EQ(session.status().message(),
            "the plan is for 4 ranks, 2 were started");
}

TEST(Session, TracesEveryInstruction) {
  Plan plan = leastSquares(2, 2);
  KernelLibrary kernels;
  SessionOptions options;
  options.trace = true;
  auto session = Session::create(plan, kernels, makeLocalComms(2, {}), options);
  ASSERT_TRUE(session.ok());
  InitialValues values(plan, ".", *InitChoice::parse("random:1"));
  ASSERT_TRUE((*session)->initialize(values).ok());
  HostTensor x = ramp({8, 4});
  ASSERT_TRUE((*session)->step(1, {x.data.data()}).ok());
  std::string events = (*session)->traceEvents();
  size_t count = 0;
  for (size_t at = 0;
       (at = events.find("\"ph\":\"X\"", at)) != std::string::npos; ++at)
    ++count;
  // Events per rank: 2 in setup, 4 for each of 2 micro-batches, 3 in update.
  EXPECT_EQ(count, 2u * (2 + 8 + 3));
  EXPECT_HAS(events, "reduce gradient");
}

} // namespace
} // namespace dpc::rt
