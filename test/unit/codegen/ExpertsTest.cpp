//===- ExpertsTest.cpp - Products of experts in plans ---------------------===//
#include "test/unit/codegen/StepHarness.h"

#include "cost-model/machine/ExpertWorkspace.h"
#include "runtime/plan/PlanExperts.h"

#include <gtest/gtest.h>

using namespace dpc::test;

namespace {

/// Two choices of a token share its row of x. Id 3 is of no expert, and expert
/// 1 has no rows.
TEST(Experts, ProductAndGradientsAreCalls) {
  Step step(R"(
func.func @step(%x: tensor<3x4xf32> {dpc.role = "input", dpc.name = "x"},
                %ids: tensor<3x2xi64> {dpc.role = "input", dpc.name = "ids"},
                %w: tensor<3x4x5xf32> {dpc.role = "parameter", dpc.name = "w"},
                %dy: tensor<3x2x5xf32> {dpc.role = "input", dpc.name = "dy"})
    -> (tensor<3x2x5xf32> {dpc.name = "y"}, tensor<3x2x4xf32> {dpc.name = "dx"},
        tensor<3x4x5xf32> {dpc.name = "dw"}) {
  %y = dpc.expert_matmul %x, %ids, %w : (tensor<3x4xf32>, tensor<3x2xi64>, tensor<3x4x5xf32>) -> tensor<3x2x5xf32>
  %dx = dpc.expert_matmul %dy, %ids, %w tb : (tensor<3x2x5xf32>, tensor<3x2xi64>, tensor<3x4x5xf32>) -> tensor<3x2x4xf32>
  %dw = dpc.expert_matmul_grad %x, %ids, %dy : (tensor<3x4xf32>, tensor<3x2xi64>, tensor<3x2x5xf32>) -> tensor<3x4x5xf32>
  return %y, %dx, %dw : tensor<3x2x5xf32>, tensor<3x2x4xf32>, tensor<3x4x5xf32>
})");
  ASSERT_EQ(step.error, "");
  Array x = randomArray(12, 1), w = randomArray(60, 2), dy = randomArray(30, 3),
        ids = {2, 0, 3, 2, 0, 2}, y(30), dx(24), dw(60);
  step.run({{"x", x}, {"ids", ids}, {"w", w}, {"dy", dy}});
  for (int r = 0; r < 6; ++r)
    for (int i = 0; i < 4 && ids[r] < 3; ++i)
      for (int j = 0; j < 5; ++j) {
        int at = static_cast<int>(ids[r]) * 20 + i * 5 + j;
        y[r * 5 + j] += x[r / 2 * 4 + i] * w[at];
        dx[r * 4 + i] += dy[r * 5 + j] * w[at];
        dw[at] += x[r / 2 * 4 + i] * dy[r * 5 + j];
      }
  step.expect({{"y", y}, {"dx", dx}, {"dw", dw}});
}

/// The cost model counts the workspace that the plan has.
TEST(Experts, WorkspaceIsPredicted) {
  for (int64_t rows : {0, 1, 127, 128, 4096})
    for (int64_t experts : {0, 1, 8, 256})
      EXPECT_EQ(dpc::cost::expertWorkspaceBytes(rows, experts),
                dpc::rt::expertWorkspaceBytes(rows, experts));
}

} // namespace
