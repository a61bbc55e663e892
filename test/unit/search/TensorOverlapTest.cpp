//===- TensorOverlapTest.cpp - tp_overlap=chunked in the predicted time ---===//
#include "passes/lower/Lower.h"
#include "passes/price/StepEstimate.h"
#include "test/unit/search/ToyCluster.h"

#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace dpc;

namespace {

cost::Cluster clusterOf(double gemmSeconds, double wireSeconds,
                        double tensorChunks) {
  cost::Cluster cluster = test::toyCluster(gemmSeconds, wireSeconds);
  cluster.software.tensorChunks = tensorChunks;
  return cluster;
}

/// Returns the predicted seconds of a step on `mesh`. If `overlap` is not
/// empty, the step has the key tp_overlap.
double secondsOf(const std::string &ops, const std::string &overlap,
                 const cost::Cluster &cluster,
                 const std::string &mesh = "tp=2") {
  MLIRContext context;
  context.loadDialect<DpcDialect, func::FuncDialect>();
  std::string mark =
      overlap.empty() ? "" : ", dpc.tp_overlap = \"" + overlap + "\"";
  auto module = parseSourceString<ModuleOp>(
      "func.func @step(%x: tensor<4x4xf32> {dpc.name = \"x\", dpc.role = "
      "\"input\"}, %w: tensor<4x4xf32> {dpc.name = \"w\", dpc.role = "
      "\"parameter\"}) attributes {dpc.mesh = #dpc.mesh<" +
          mesh + ">" + mark + "} {\n" + ops + "return }",
      &context);
  if (!module) {
    ADD_FAILURE() << "cannot parse " << ops;
    return 0;
  }
  Expected<StepTime> time = estimateTime(findSteps(*module), cluster);
  EXPECT_TRUE(time) << time.message();
  return time ? time->seconds : 0;
}

const std::string kGemmThenScatter =
    "%y = dpc.matmul %x, %w {batch_dims = 0 : i64, dpc.phase = \"forward\"} : "
    "(tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>\n"
    "%v = dpc.reshape %y {dpc.phase = \"forward\"} : tensor<4x4xf32> -> "
    "tensor<2x2x4xf32>\n"
    "%z = dpc.reduce_scatter sum %v axes = [\"tp\"] {dpc.phase = \"forward\"} "
    ": tensor<2x2x4xf32> -> tensor<2x4xf32>\n";
const std::string kGatherThenGemm =
    "%g = dpc.all_gather %x axes = [\"tp\"] {dpc.phase = \"forward\"} : "
    "tensor<4x4xf32> -> tensor<2x4x4xf32>\n"
    "%f = dpc.reshape %g {dpc.phase = \"forward\"} : tensor<2x4x4xf32> -> "
    "tensor<8x4xf32>\n"
    "%y = dpc.matmul %f, %w {batch_dims = 0 : i64, dpc.phase = \"forward\"} : "
    "(tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>\n";

TEST(TensorOverlap, AGemmAndItsCollectiveRunInChunks) {
  // With 4 chunks, a GEMM of g seconds and a collective of t seconds together
  // take max(g, t) + min(g, t) / 4 seconds.
  EXPECT_NEAR(secondsOf(kGemmThenScatter, "chunked", clusterOf(1, 0.5, 4)),
              1 + 0.5 / 4, 1e-9);
  EXPECT_NEAR(secondsOf(kGemmThenScatter, "chunked", clusterOf(1, 3, 4)),
              3 + 1.0 / 4, 1e-9);
  EXPECT_NEAR(secondsOf(kGatherThenGemm, "chunked", clusterOf(1, 0.5, 4)),
              1 + 0.5 / 4, 1e-9);
}

TEST(TensorOverlap, NothingOverlapsWithoutTheKeyOrTheSoftware) {
  for (const std::string &ops : {kGemmThenScatter, kGatherThenGemm})
    EXPECT_NEAR(secondsOf(ops, "", clusterOf(1, 0.5, 4)), 1.5, 1e-9);
  EXPECT_NEAR(secondsOf(kGemmThenScatter, "chunked", clusterOf(1, 0.5, 1)), 1.5,
              1e-9);
  cost::Cluster serial = clusterOf(1, 0.5, 4);
  serial.software.overlap = false;
  EXPECT_NEAR(secondsOf(kGemmThenScatter, "chunked", serial), 1.5, 1e-9);
}

/// Two collectives over different axes of unlike values.
TEST(CommunicationQueues, CollectivesOverOtherAxesDoNotWait) {
  const std::string ops =
      "%a = dpc.all_reduce sum %x axes = [\"dp\"] {dpc.phase = \"forward\"} : "
      "(tensor<4x4xf32>) -> tensor<4x4xf32>\n"
      "%b = dpc.all_reduce sum %w axes = [\"tp\"] {dpc.phase = \"forward\"} : "
      "(tensor<4x4xf32>) -> tensor<4x4xf32>\n";
  cost::Cluster cluster = clusterOf(1, 1, 1);
  cluster.groups[0].devicesPerNode = cluster.levels[0].span = 4;
  double one = secondsOf(ops, "", cluster, "dp=2, tp=2");
  cluster.software.queuePerGroup = true;
  EXPECT_GT(one, 0);
  EXPECT_NEAR(secondsOf(ops, "", cluster, "dp=2, tp=2"), one / 2, 1e-9);
}

} // namespace
