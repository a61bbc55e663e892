//===- EvaluatorTest.cpp - Totals of programs -----------------------------===//
#include "passes/price/Evaluator.h"

#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace dpc;

namespace {

cost::ModelTotals totalsOfText(const std::string &text) {
  MLIRContext context;
  context.loadDialect<DpcDialect, func::FuncDialect>();
  auto module = parseSourceString<ModuleOp>(text, &context);
  auto cluster = cost::loadCluster("local:2");
  if (!module || !cluster) {
    ADD_FAILURE() << "cannot set up: " << text;
    return {};
  }
  return ProgramEvaluator(*module, *cluster).totals();
}

cost::ModelTotals totalsOf(const std::string &inputs) {
  return totalsOfText("func.func @train_step(%w: tensor<4xf32> {dpc.name = "
                      "\"w\", dpc.role = \"parameter\"}, " +
                      inputs + ") { return }");
}

std::string input(const std::string &name, const std::string &type) {
  return "%" + name + ": " + type + " {dpc.batch_dim = 0 : i64, dpc.name = \"" +
         name + "\", dpc.role = \"input\"}";
}

TEST(Evaluator, TheLargestIntegerInputHasTheTokens) {
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

/// Returns the number of layers of a program with the body `ops`, which reads
/// the input %x and the weight %w.
int64_t layersOf(const std::string &ops) {
  return totalsOfText(
             "func.func @forward(%x: tensor<8x16xf32> {dpc.batch_dim = 0 : "
             "i64, dpc.name = \"x\", dpc.role = \"input\"}, %w: "
             "tensor<16x16xf32> {dpc.name = \"w\", dpc.role = "
             "\"parameter\"}) { " +
             ops + " return }")
      .layers;
}

/// Returns the text of `to` = `from` times %w.
std::string matmul(const std::string &to, const std::string &from) {
  return to + " = dpc.matmul " + from +
         ", %w {batch_dims = 0 : i64} : (tensor<8x16xf32>, tensor<16x16xf32>) "
         "-> tensor<8x16xf32>\n";
}
std::string relu(const std::string &to, const std::string &from) {
  return to + " = dpc.unary relu " + from +
         " : tensor<8x16xf32> -> tensor<8x16xf32>\n";
}
std::string sum(const std::string &to, const std::string &a,
                const std::string &b) {
  return to + " = dpc.binary add " + a + ", " + b +
         " : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>\n";
}

TEST(Evaluator, LayersOfAChainAreItsGemms) {
  EXPECT_EQ(layersOf(relu("%a", "%x")), 1);
  EXPECT_EQ(layersOf(matmul("%a", "%x") + relu("%b", "%a") +
                     matmul("%c", "%b") + relu("%d", "%c") +
                     matmul("%e", "%d")),
            3);
}

TEST(Evaluator, LayersOfAResidualNetworkAreItsBlocks) {
  // Two blocks have two GEMMs and a residual, and the first and the last GEMM
  // are a block each.
  EXPECT_EQ(layersOf(matmul("%a", "%x") + matmul("%b", "%a") +
                     relu("%c", "%b") + matmul("%d", "%c") +
                     sum("%e", "%a", "%d") + matmul("%f", "%e") +
                     relu("%g", "%f") + matmul("%h", "%g") +
                     sum("%i", "%e", "%h") + matmul("%j", "%i")),
            4);
}

TEST(Evaluator, BuffersHaveNoGradients) {
  cost::ModelTotals totals =
      totalsOf("%b: tensor<100xf32> {dpc.name = \"b\", dpc.role = \"buffer\"}");
  EXPECT_EQ(totals.parameters, 4);
  EXPECT_EQ(totals.gradientBytes, 16);
}

} // namespace
