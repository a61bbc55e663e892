//===- ExchangeTimeTest.cpp - Exchanged rows in the predicted time --------===//
#include "passes/lower/Lower.h"
#include "passes/price/StepEstimate.h"
#include "test/unit/search/ToyCluster.h"

#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace dpc;

namespace {

cost::Cluster clusterOf(double launch, double wire, bool overlaps = true) {
  cost::Cluster cluster = test::toyCluster(launch, wire);
  cluster.software.overlap = overlaps;
  return cluster;
}

/// Returns the predicted seconds of a step whose two ranks exchange 8 rows each
/// in tiles of 4, and then compute `others` that need no row.
double secondsOf(int others, const cost::Cluster &cluster) {
  MLIRContext context;
  context.loadDialect<DpcDialect, func::FuncDialect>();
  std::string text = R"mlir(
#e = #dpc.sharding<#dpc.mesh<ep=2>, [{ep}, {}, {}]>
func.func @step(%ids: tensor<8xi64> {dpc.name = "ids", dpc.role = "input"},
                %x: tensor<8x4xf32> {dpc.name = "x", dpc.role = "input"}) attributes {dpc.mesh = #dpc.mesh<ep=2>} {
  %y = dpc.expert_tiles %ids, %x in = [1] out = [1] global = tensor<2x4x4xf32, #e> exchange = ["ep"] {dpc.phase = "forward"} : (tensor<8xi64>, tensor<8x4xf32>) -> tensor<8x4xf32> {
  ^bb0(%i: tensor<4xi64>, %r: tensor<4x4xf32>):
    %t = dpc.unary tanh %r {dpc.phase = "forward"} : tensor<4x4xf32> -> tensor<4x4xf32>
    dpc.yield %t : tensor<4x4xf32>
  }
)mlir";
  for (int i = 0; i < others; ++i)
    text += "  %o" + std::to_string(i) +
            " = dpc.unary tanh %x {dpc.phase = \"forward\"} : tensor<8x4xf32> "
            "-> tensor<8x4xf32>\n";
  text += "  %z = dpc.unary relu %y {dpc.phase = \"forward\"} : "
          "tensor<8x4xf32> -> tensor<8x4xf32>\n  return\n}\n";
  auto module = parseSourceString<ModuleOp>(text, &context);
  if (!module) {
    ADD_FAILURE() << "cannot parse " << text;
    return 0;
  }
  Expected<StepTime> time = estimateTime(findSteps(*module), cluster);
  EXPECT_TRUE(time) << time.message();
  return time ? time->seconds : 0;
}

/// Three rounds for 8 rows, because each of the two ranks leaves about half a
/// row of a tile empty. A round has three all_to_alls. The counts come first.
TEST(ExchangeTime, RoundsAlternateBetweenQueues) {
  EXPECT_NEAR(secondsOf(0, clusterOf(0, 1)), 1 + 3 * 3, 1e-9);
  double work = secondsOf(0, clusterOf(1, 0));
  EXPECT_NEAR(secondsOf(0, clusterOf(1, 1)), work + 10, 1e-9);
}

TEST(ExchangeTime, OtherComputationsRunWhileRowsTravel) {
  double alone = secondsOf(0, clusterOf(1, 1));
  EXPECT_NEAR(secondsOf(5, clusterOf(1, 1)), alone, 1e-9);
  EXPECT_NEAR(secondsOf(5, clusterOf(1, 1, /*overlaps=*/false)), alone + 5,
              1e-9);
  EXPECT_NEAR(secondsOf(5, clusterOf(1, 0)), secondsOf(0, clusterOf(1, 0)) + 5,
              1e-9);
}

} // namespace
