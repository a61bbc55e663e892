//===- GemmTimesTest.cpp - seconds of a model's GEMMs ---------------------===//
#include "cost-model/machine/ComputeCost.h"
#include "cost-model/search/FormulaEstimate.h"
#include "test/unit/cost-model/ToySearch.h"

#include <gtest/gtest.h>

namespace dpc::cost {
namespace {

class GemmTimesTest : public testing::Test {
protected:
  GemmTimesTest() {
    totals.computeType = DType::F32;
    totals.gemms = {
        {.rowsPerSample = 64, .n = 256, .k = 128, .count = 3},
        {.batch = 4, .rowsPerSample = 16, .n = 32, .k = 96, .count = 1}};
  }
  double time(int64_t batch, int64_t m, int64_t n, int64_t k) const {
    return gemmSeconds(cluster.groups.front().device, DType::F32,
                       {.batch = batch, .m = m, .n = n, .k = k});
  }

  Cluster cluster = toyCluster(4);
  ModelTotals totals;
};

TEST_F(GemmTimesTest, AreSumsOverShapesAndPasses) {
  GemmTimes times(cluster, totals);
  // Two samples; the larger dimension of each weight is split over two ranks,
  // and four experts over two.
  double wide = time(1, 128, 128, 128) * 3;
  double experts =
      time(2, 64, 32, 48) + time(2, 64, 48, 32) + time(2, 48, 32, 64);
  EXPECT_DOUBLE_EQ(times.seconds(2, 2, 2), 3 * wide + experts);
  EXPECT_DOUBLE_EQ(times.seconds(2, 2, 2),
                   3 * wide + experts); // from the table
  EXPECT_DOUBLE_EQ(times.flops(2),
                   3 * 2 * (3 * 2.0 * 64 * 256 * 128 + 4 * 2.0 * 16 * 32 * 96));
  totals.training = false;
  GemmTimes forward(cluster, totals);
  EXPECT_DOUBLE_EQ(forward.seconds(2, 2, 2), wide + time(2, 64, 32, 48));
}

TEST_F(GemmTimesTest, TheFormulaCountsLaunchesOfEachMicroBatch) {
  totals.globalBatch = 8;
  totals.layers = 4;
  totals.flopsPerStep = GemmTimes(cluster, totals).flops(8);
  auto estimate = [&](int64_t microBatch) {
    Strategy strategy;
    strategy.microBatch = microBatch;
    return estimateByFormula(cluster, totals, strategy).computeSeconds;
  };
  GemmTimes times(cluster, totals);
  EXPECT_DOUBLE_EQ(estimate(2), 4 * times.seconds(2, 1, 1));
  EXPECT_DOUBLE_EQ(estimate(8), times.seconds(8, 1, 1));
  double before = estimate(2);
  totals.otherKernels = 10;
  EXPECT_DOUBLE_EQ(estimate(2) - before,
                   4 * 10 * cluster.groups.front().device.launchSeconds);
}

TEST_F(GemmTimesTest, TiedParametersTravelBothWays) {
  totals.globalBatch = 8;
  totals.layers = 4;
  Strategy strategy;
  strategy.pp = 4;
  strategy.microBatch = 2;
  auto sent = [&] {
    return estimateByFormula(cluster, totals, strategy).bytesPerLevel[0];
  };
  double untied = sent();
  totals.tiedBytes = 1000;
  EXPECT_DOUBLE_EQ(sent() - untied, 2 * 1000);
  strategy.microBatch = 8; // The gradient is sent behind the backward pass.
  double single = sent();
  totals.tiedBytes = 0;
  EXPECT_DOUBLE_EQ(single - sent(), 1000);
}

} // namespace
} // namespace dpc::cost
