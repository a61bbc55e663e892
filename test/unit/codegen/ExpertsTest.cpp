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

/// Tiles of `rows` rows. The second rank has the experts 2 and 3; expert 3 has
/// no rows. Rows of the result `q` stay single, and those of `t` are added as a
/// whole.
std::string tiles(int rows) {
  return substitute(R"(
#e = #dpc.sharding<#dpc.mesh<ep=2>, [{ep}, {}, {}]>
!w = tensor<2x4x5xf32>
func.func @step(%x: tensor<3x4xf32> {dpc.role = "input", dpc.name = "x"},
                %ids: tensor<6xi64> {dpc.role = "input", dpc.name = "ids"},
                %w: !w {dpc.role = "parameter", dpc.name = "w"},
                %g: tensor<6x5xf32> {dpc.role = "input", dpc.name = "g"})
    -> (tensor<3x5xf32> {dpc.name = "y"}, !w {dpc.name = "dw"},
        tensor<6x5xf32> {dpc.name = "q"}, tensor<5xf32> {dpc.name = "t"})
    attributes {dpc.mesh = #dpc.mesh<ep=2>} {
  %y, %dw, %q, %t = dpc.expert_tiles %ids, %x, %g, %w in = [2, 1, 0] out = [2, 0, 1, 0] global = tensor<4x4x5xf32, #e> : (tensor<6xi64>, tensor<3x4xf32>, tensor<6x5xf32>, !w) -> (tensor<3x5xf32>, !w, tensor<6x5xf32>, tensor<5xf32>) {
  ^bb0(%i: tensor<${C}xi64>, %xt: tensor<${C}x4xf32>, %gt: tensor<${C}x5xf32>, %m: !w):
    %p = dpc.expert_matmul %xt, %i, %m global = tensor<4x4x5xf32, #e> : (tensor<${C}x4xf32>, tensor<${C}xi64>, !w) -> tensor<${C}x5xf32>
    %r = dpc.binary mul %p, %gt : (tensor<${C}x5xf32>, tensor<${C}x5xf32>) -> tensor<${C}x5xf32>
    %d = dpc.expert_matmul_grad %xt, %i, %gt global = tensor<4x4x5xf32, #e> : (tensor<${C}x4xf32>, tensor<${C}xi64>, tensor<${C}x5xf32>) -> !w
    %s = dpc.reduce sum %r dims = [0] : tensor<${C}x5xf32> -> tensor<5xf32>
    dpc.yield %r, %d, %p, %s : tensor<${C}x5xf32>, !w, tensor<${C}x5xf32>, tensor<5xf32>
  }
  return %y, %dw, %q, %t : tensor<3x5xf32>, !w, tensor<6x5xf32>, tensor<5xf32>
})",
                    {{"C", std::to_string(rows)}});
}

TEST(Experts, TilesSumRowsAndMatrices) {
  for (int rows : {1, 2, 3, 6, 8}) {
    Step step(tiles(rows));
    ASSERT_EQ(step.error, "") << rows;
    Array x = randomArray(12, 1), w = randomArray(40, 2),
          g = randomArray(30, 3), ids = {2, 0, 1, 2, 2, 5}, y(15), dw(40),
          q(30), t(5);
    step.run({{"x", x}, {"ids", ids}, {"w", w}, {"g", g}}, /*rank=*/1);
    for (int r = 0; r < 6; ++r)
      for (int j = 0; j < 5 && ids[r] == 2; ++j) {
        for (int i = 0; i < 4; ++i) {
          q[r * 5 + j] += x[r / 2 * 4 + i] * w[i * 5 + j];
          dw[i * 5 + j] += x[r / 2 * 4 + i] * g[r * 5 + j];
        }
        y[r / 2 * 5 + j] += q[r * 5 + j] * g[r * 5 + j];
        t[j] += q[r * 5 + j] * g[r * 5 + j];
      }
    step.expect({{"y", y}, {"dw", dw}, {"q", q}, {"t", t}});
  }
}

/// A rank without rows has zeros.
TEST(Experts, TilesOfNoRowsAreZeros) {
  Step step(tiles(4));
  ASSERT_EQ(step.error, "");
  step.run({{"x", randomArray(12, 1)},
            {"ids", {2, 2, 3, 2, 2, 5}},
            {"w", randomArray(40, 2)},
            {"g", randomArray(30, 3)}},
           /*rank=*/0);
  step.expect(
      {{"y", Array(15)}, {"dw", Array(40)}, {"q", Array(30)}, {"t", Array(5)}});
}

/// The cost model counts the workspace that the plan has.
TEST(Experts, WorkspaceIsPredicted) {
  for (int64_t rows : {0, 1, 127, 128, 4096})
    for (int64_t experts : {0, 1, 8, 256})
      EXPECT_EQ(dpc::cost::expertWorkspaceBytes(rows, experts),
                dpc::rt::expertWorkspaceBytes(rows, experts));
}

} // namespace
