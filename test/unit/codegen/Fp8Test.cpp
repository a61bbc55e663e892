//===- Fp8Test.cpp - fp8 GEMMs in plans -----------------------------------===//
#include "test/unit/codegen/StepHarness.h"

#include <gtest/gtest.h>

using namespace dpc::test;
using dpc::rt::DType;
using dpc::rt::MatmulOp;

namespace {

/// Returns a step that multiplies `operand` by %w. `operand` is %x of type `x`,
/// or a result of the code in `before`.
std::string stepOf(const std::string &x, const std::string &before,
                   const std::string &operand) {
  return substitute(R"(
func.func @step(${x}, ${w}) -> (tensor<2x16x48xbf16> {dpc.name = "y"}) {
${before}  %y = dpc.matmul ${operand}, %w {dpc.fp8 = [f8E5M2, f8E4M3FN], dpc.workspace = 1344 : i64, dpc.phase = "backward"} : (tensor<2x16x16xbf16>, tensor<16x48xbf16>) -> tensor<2x16x48xbf16>
  return %y : tensor<2x16x48xbf16>
})",
                    {{"x", argument("x", x)},
                     {"w", argument("w", "16x48xbf16")},
                     {"before", before},
                     {"operand", operand}});
}

std::vector<MatmulOp> productsOf(const Step &step) {
  EXPECT_EQ(step.error, "");
  std::vector<MatmulOp> products;
  for (const auto &[phase, instructions] : step.plan.phases)
    for (const auto &instruction : instructions)
      if (auto *op = std::get_if<MatmulOp>(&instruction.op))
        products.push_back(*op);
  return products;
}

TEST(Fp8, MarkedGemmsMultiplyCodes) {
  Step step(stepOf("2x16x16xbf16", "", "%x"));
  std::vector<MatmulOp> products = productsOf(step);
  ASSERT_EQ(products.size(), 1u);
  const MatmulOp &op = products[0];
  ASSERT_TRUE(op.fp8);
  EXPECT_EQ(op.m, 32);
  EXPECT_EQ(op.fp8->a, DType::F8E5M2);
  EXPECT_EQ(op.fp8->b, DType::F8E4M3FN);
  const auto &workspace = step.plan.buffers[op.fp8->workspace];
  EXPECT_EQ(workspace.bytes, 1344);
  EXPECT_EQ(workspace.kind, dpc::rt::BufferKind::Workspace);
}

/// If the rows of different samples are not evenly spaced, a batched GEMM is
/// needed, which stays in bf16.
TEST(Fp8, BatchesOfGemmsStayInBf16) {
  std::string slice =
      "  %s = dpc.slice %x offsets = [0, 4, 0] strides = [1, 1, 1] {dpc.view} "
      ": tensor<2x20x16xbf16> -> tensor<2x16x16xbf16>\n";
  Step step(stepOf("2x20x16xbf16", slice, "%s"));
  expectSays(step.error, "predicted in fp8 but run in bf16: 1,");
  step.error.clear();
  std::vector<MatmulOp> products = productsOf(step);
  ASSERT_EQ(products.size(), 1u);
  EXPECT_EQ(products[0].batch2, 2);
  EXPECT_FALSE(products[0].fp8);
  for (const auto &buffer : step.plan.buffers)
    EXPECT_NE(buffer.bytes, 1344);
}

} // namespace
