//===- GuardTest.cpp - drifted replicas, NaN, spikes, stragglers ----------===//
#include "runtime/exec/RankExecutor.h"
#include "runtime/job/ReplicaCheck.h"
#include "runtime/job/SlowRanks.h"
#include "runtime/observe/NumberGuard.h"
#include "test/unit/runtime/Expect.h"
#include "test/unit/runtime/TestPlans.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <thread>

namespace dpc::rt {
namespace {

using test::leastSquares;

TEST(ReplicaCheck, TheFirstHolderOwnsTheShard) {
  Mesh mesh{{{"pp", 2}, {"dp", 3}, {"tp", 2}}};
  for (const std::vector<std::string> &axes :
       std::vector<std::vector<std::string>>{
           {}, {"dp"}, {"tp"}, {"tp", "dp"}}) {
    Layout layout;
    layout.dims = {{Factor{12, axes}}};
    for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
      int64_t first = firstHolder(layout, mesh, rank),
              stage = mesh.stageOf(rank);
      EXPECT_EQ(ownsShard(layout, mesh, rank, 0, stage), first == rank);
      EXPECT_TRUE(ownsShard(layout, mesh, first, 0, stage));
      EXPECT_EQ(shardOf(12, axes, mesh, rank, 0).offset,
                shardOf(12, axes, mesh, first, 0).offset);
    }
  }
}

TEST(SlowRanks, AreTimedWithoutWaits) {
  Plan plan = leastSquares(3, 1);
  plan.kernelFile = "none.so";
  plan.kernelHash = "0000000000000000";
  KernelOp slow{"slow", {5, 5}, {1}, {{ScalarKind::Coord, 0, 0, {"dp"}}}};
  plan.phases["setup"].push_back({Queue::Compute, {}, -1, "", 0, slow});
  KernelLibrary kernels = KernelLibrary::of(
      {{"slow", [](void *const *, const int64_t *scalars) {
          if (scalars[0] == 1)
            std::this_thread::sleep_for(std::chrono::milliseconds(300));
        }}});
  SessionOptions options;
  options.timesRanks = true;
  auto session = Session::create(plan, kernels, makeLocalComms(3, {}), options);
  ASSERT_TRUE(session.ok()) << session.status().message();
  HostTensor x = test::ramp({8, 4});
  ASSERT_TRUE((*session)->step(1, {x.data.data()}).ok());
  Expected<std::vector<double>> seconds = ownSeconds(plan, **session);
  ASSERT_TRUE(seconds.ok());
  EXPECT_GE((*seconds)[1], 0.3);
  // The time of other ranks excludes waits for rank 1.
  EXPECT_LT((*seconds)[0], 0.3);
  EXPECT_LT((*seconds)[2], 0.3);
  EXPECT_EQ(*ownSeconds(plan, **session), (std::vector<double>{0, 0, 0}));
}

TEST(FirstLoss, IsComparedWithEqualProbabilities) {
  Plan plan = leastSquares(4, 1);
  Port &labels = plan.inputs.front();
  labels.limit = 100;
  EXPECT_EQ(aboveEqualProbabilities(plan, 50), "");
  labels.dependence.isMean = true;
  EXPECT_EQ(aboveEqualProbabilities(plan, 50),
            "the first loss is 50, above that of equal probabilities for all "
            "100 classes, 4.605");
  EXPECT_EQ(aboveEqualProbabilities(plan, 7.5), "");
  EXPECT_EQ(aboveEqualProbabilities(plan, std::nan("")), "");
  // The mean of many labels is exact.
  labels.globalShape = {8, 16};
  EXPECT_EQ(aboveEqualProbabilities(plan, 5), "");
  EXPECT_EQ(aboveEqualProbabilities(plan, 5.25),
            "the first loss is 5.25, above that of equal probabilities for all "
            "100 classes, 4.605");
}

TEST(GrowthAlarm, SaysOnceThatTheLossOfTheFirstStepsGrows) {
  auto look = [](const std::vector<double> &losses) {
    GrowthAlarm alarm;
    std::vector<std::string> texts;
    for (double loss : losses)
      if (std::string text = alarm.look(loss); !text.empty())
        texts.push_back(text);
    return texts;
  };
  EXPECT_EQ(look({2, 19, 30, 50, 70}),
            std::vector<std::string>{
                "the loss is 50, 25 times that of the first step"});
  EXPECT_TRUE(look({2, 30, 3, 30, 3}).empty()); // single batches
  EXPECT_TRUE(look({1e-9, 1, 1}).empty());
  std::vector<double> late(20, 2);
  late.insert(late.end(), 5, 100);
  EXPECT_TRUE(look(late).empty());
}

TEST(SlowRanks, AreComparedWithTheMedianOfTheirStage) {
  Plan plan = leastSquares(4, 1);
  EXPECT_EQ(slowRanks(plan, {0.1, 0.1, 0.41, 0.15}, 10, 2),
            std::vector<std::string>{"rank 2 computes 41 ms a step, 4.1 times "
                                     "the median of the ranks of its stage"});
  EXPECT_TRUE(slowRanks(plan, {0.1, 0.1, 0.19, 0.1}, 10, 2).empty());
  EXPECT_TRUE(slowRanks(plan, {0, 0, 0, 0}, 10, 2).empty());
  // Ranks are only compared with ranks of the same stage.
  Plan stages = test::twoStages(2, 1);
  EXPECT_TRUE(slowRanks(stages, {0.1, 0.1, 0.9, 0.9}, 1, 2).empty());
  EXPECT_EQ(slowRanks(stages, {0.1, 0.3, 0.9, 0.9}, 1, 2).size(), 1u);
}

class Guarded : public testing::Test {
protected:
  void start(int ranks, bool checkNumbers = false) {
    plan = leastSquares(ranks, 1);
    SessionOptions options;
    options.checkNumbers = checkNumbers;
    auto made =
        Session::create(plan, kernels, makeLocalComms(ranks, {}), options);
    ASSERT_TRUE(made.ok()) << made.status().message();
    session = std::move(*made);
    for (size_t i = 0; i < session->ranksHere().size(); ++i)
      fill(i, 0.5f);
  }
  /// Fills w (buffer 0) on rank i.
  void fill(size_t i, float value) {
    ASSERT_TRUE(session->ranksHere()[i]
                    ->fillBuffer(0,
                                 [&](char *bytes) {
                                   std::vector<float> w(8, value);
                                   std::memcpy(bytes, w.data(), 32);
                                   return Status::success();
                                 })
                    .ok());
  }
  std::string replicas() { return checkReplicas(plan, *session).message(); }

  Plan plan;
  KernelLibrary kernels;
  std::unique_ptr<Session> session;
};

TEST_F(Guarded, TheRankThatDriftedIsNamed) {
  start(4);
  EXPECT_EQ(replicas(), "");
  fill(2, std::nextafter(0.5f, 1.f));
  EXPECT_EQ(replicas(), "'w' differs on rank 2 from the 3 other copies");
  fill(0, 1);
  fill(2, 1);
  EXPECT_EQ(replicas(), "'w' differs on ranks 0, 1, 2, 3");
}

TEST(ReplicaCheck, CopiesInOtherStagesAreCompared) {
  Mesh mesh{{{"pp", 2}, {"dp", 3}, {"tp", 2}}};
  Layout layout;
  layout.dims = {{Factor{12, {"tp"}}}};
  EXPECT_EQ(firstHolder(layout, mesh, 11), 7); // pp 1, dp 0, tp 1
  EXPECT_EQ(firstHolder(layout, mesh, 11, /*inStages=*/true), 1);
}

TEST_F(Guarded, TheFirstNanIsNamed) {
  start(3, /*checkNumbers=*/true);
  std::vector<float> x(32, 1);
  ASSERT_TRUE(session->step(1, {x.data()}).ok());
  EXPECT_EQ(*session->numberFault(), "");
  fill(1, -std::numeric_limits<float>::infinity()); // later inf - inf
  x[14] = -1;                                       // a row of rank 1
  ASSERT_TRUE(session->step(2, {x.data()}).ok());
  std::string place = *session->numberFault();
  EXPECT_EQ(place.rfind("rank 1: ", 0), 0u) << place;
  EXPECT_HAS(place, "buffer 'y'");
  start(3);
  ASSERT_TRUE(session->step(1, {x.data()}).ok());
  EXPECT_EQ(*session->numberFault(), "");
}

TEST_F(Guarded, TensorsAreCheckedBeforeAStep) {
  start(3, /*checkNumbers=*/true);
  fill(1, std::numeric_limits<float>::infinity());
  std::vector<float> x(32, 1);
  ASSERT_TRUE(session->step(1, {x.data()}).ok());
  EXPECT_EQ(*session->numberFault(),
            "rank 1: parameter 'w', which held inf as the step began");
}

TEST(NumberCheck, EveryFloatTypeHasNan) {
  for (DType type :
       {DType::F32, DType::F64, DType::BF16, DType::F16, DType::F8E5M2}) {
    HostTensor values = HostTensor::zeros(type, {5});
    values.set(1, std::numeric_limits<double>::infinity());
    EXPECT_EQ(firstNan(values.data.data(), type, 5), -1) << nameOf(type);
    values.set(3, std::numeric_limits<double>::quiet_NaN());
    EXPECT_EQ(firstNan(values.data.data(), type, 5), 3) << nameOf(type);
    EXPECT_EQ(firstNan(values.data.data(), type, 3), -1) << nameOf(type);
  }
  HostTensor ones = HostTensor::zeros(DType::I32, {4});
  std::memset(ones.data.data(), 0xff, 16);
  EXPECT_EQ(firstNan(ones.data.data(), DType::I32, 4), -1);
}

} // namespace
} // namespace dpc::rt

namespace dpc {
namespace {

TEST(NumberGuard, SkippedStepsMayOverflow) {
  StepReport step;
  EXPECT_EQ(notFinite(step), "");
  step.loss = 1;
  step.gradNorm = std::numeric_limits<double>::infinity();
  EXPECT_EQ(notFinite(step), "the gradient norm is inf");
  step.skipped = 1;
  EXPECT_EQ(notFinite(step), "");
  step.skipped = 0;
  step.loss = -std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(notFinite(step), "the loss is nan");
}

TEST(NumberGuard, InputsThatAreNotFiniteAreNamed) {
  rt::Plan plan;
  plan.inputs = {{"mask", 0, rt::DType::F32, {4, 2}, {}, 0},
                 {"ids", 0, rt::DType::I32, {4}, {}, 0},
                 {"x", 0, rt::DType::F32, {4, 3}, {}, 0}};
  std::vector<float> mask(8, 0), x(12, 1);
  std::vector<int32_t> ids(4, -1);
  std::vector<const void *> arrays = {mask.data(), ids.data(), x.data()};
  EXPECT_EQ(notFiniteInput(plan, arrays), "");
  mask[3] = mask[7] = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(notFiniteInput(plan, arrays),
            "input 'mask' holds -inf in sample 1");
  x[8] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(notFiniteInput(plan, arrays), "input 'x' holds inf in sample 2");
  x[11] = -std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(notFiniteInput(plan, arrays), "input 'x' holds nan in sample 3");
}

TEST(NumberGuard, StepsAreNotSkippedForever) {
  rt::Plan fixed, adapting;
  rt::Tensor scale;
  scale.role = rt::TensorRole::State;
  scale.slot = "scale";
  adapting.tensors = {scale};
  StepReport bad;
  bad.skipped = 1;
  SkipAlarm alarm;
  for (bad.lossScale = 65536; *bad.lossScale > 1; *bad.lossScale /= 2)
    EXPECT_EQ(alarm.look(adapting, bad), "");
  EXPECT_EQ(alarm.look(adapting, bad),
            "the gradients are not finite, though the loss scale is 1, the "
            "smallest");
  StepReport good = bad;
  good.skipped = 0;
  EXPECT_EQ(alarm.look(adapting, good), "");
  for (int step = 0; step < 19; ++step)
    EXPECT_EQ(alarm.look(fixed, bad), "");
  EXPECT_EQ(alarm.look(fixed, good), "");
  for (int step = 0; step < 19; ++step)
    EXPECT_EQ(alarm.look(fixed, bad), "");
  EXPECT_EQ(alarm.look(fixed, bad),
            "the gradients are not finite, like those of the 19 steps before; "
            "all were skipped");
}

TEST(NumberGuard, SpikesAreAboveTheMedian) {
  SpikeAlarm alarm(2);
  for (int step = 0; step < 9; ++step)
    EXPECT_EQ(alarm.look("the loss", step == 5 ? 100 : 4), ""); // too few
                                                                // values
  EXPECT_EQ(alarm.look("the loss", 4), "");
  EXPECT_EQ(alarm.look("the loss", 7.9), "");
  EXPECT_EQ(alarm.look("the loss", 10),
            "the loss is 10, 2.5 times the median of the last 11 steps");
  EXPECT_EQ(alarm.look("the loss", std::numeric_limits<double>::infinity()),
            "");
  for (int step = 0; step < 50; ++step)
    (void)alarm.look("the loss", 10);
  EXPECT_EQ(alarm.look("the loss", 19), ""); // the median is now 10
  SpikeAlarm off(0);
  for (int step = 0; step < 20; ++step)
    EXPECT_EQ(off.look("the loss", step * step), "");
}

} // namespace
} // namespace dpc
