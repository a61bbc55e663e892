//===- EvaluatorTest.cpp - What the evaluator reads off a program ---------===//
#include "passes/search/Evaluator.h"

#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace dpc;

namespace {

/// Totals of @train_step with the given inputs.
cost::ModelTotals totalsOf(const std::string &inputs) {
  MLIRContext context;
  context.loadDialect<DpcDialect, func::FuncDialect>();
  auto module = parseSourceString<ModuleOp>(
      "func.func @train_step(%w: tensor<4xf32> {dpc.name = \"w\", dpc.role = "
      "\"parameter\"}, " +
          inputs + ") { return }",
      &context);
  auto cluster = cost::loadCluster("local:2");
  if (!module || !cluster) {
    ADD_FAILURE() << "cannot set up";
    return {};
  }
  return ProgramEvaluator(*module, *cluster).totals();
}

std::string input(const std::string &name, const std::string &type) {
  return "%" + name + ": " + type + " {dpc.batch_dim = 0 : i64, dpc.name = \"" +
         name + "\", dpc.role = \"input\"}";
}

TEST(Evaluator, TokensOfTheLargestIntegerInput) {
  std::string ids = input("ids", "tensor<8x16xi64>");
  std::string labels = input("labels", "tensor<8xi64>");
  std::string image = input("image", "tensor<8x32xf32>");
  for (const std::string &inputs : {ids + ", " + labels, labels + ", " + ids}) {
    cost::ModelTotals totals = totalsOf(inputs);
    EXPECT_EQ(totals.globalBatch, 8);
    EXPECT_EQ(totals.tokensPerSample, 16);
  }
  EXPECT_EQ(totalsOf(image + ", " + labels).tokensPerSample, 1);
  EXPECT_EQ(totalsOf(image).tokensPerSample, 1);
}

TEST(Evaluator, BuffersHaveNoGradients) {
  cost::ModelTotals totals =
      totalsOf("%b: tensor<100xf32> {dpc.name = \"b\", dpc.role = \"buffer\"}");
  EXPECT_EQ(totals.parameters, 4);
  EXPECT_EQ(totals.gradientBytes, 16);
}

} // namespace
