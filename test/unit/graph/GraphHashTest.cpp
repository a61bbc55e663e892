//===- GraphHashTest.cpp - which changes of a model a hash shows ----------===//
#include "passes/graph/GraphHash.h"
#include "test/unit/graph/GraphTest.h"

using namespace mlir;
using namespace dpc;
using namespace dpc::test;

namespace {

/// A model with a loss and an output beside it. Marks are replaced by tests.
const char *kModel = R"(
func.func @forward(%x: tensor<8x4xf32> {dpc.name = "x", dpc.role = "input"},
                   %w: tensor<4x4xf32> {dpc.name = "w", dpc.role = "parameter"})
    -> (tensor<f32>, tensor<8x4xf32>) {
  %0 = dpc.matmul %x, %w : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %1 = dpc.unary relu %0 : tensor<8x4xf32> -> tensor<8x4xf32>
  %side = dpc.unary exp %0 : tensor<8x4xf32> -> tensor<8x4xf32>
  %2 = dpc.reduce sum %1 dims = [0, 1] : tensor<8x4xf32> -> tensor<f32>
  %c = dpc.constant dense<3.125e-2> : tensor<f32> -> tensor<f32>
  %3 = dpc.binary mul %2, %c : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %3, %side : tensor<f32>, tensor<8x4xf32>
})";

std::string changed(std::string text, const std::string &from,
                    const std::string &to) {
  EXPECT_NE(text.find(from), std::string::npos) << from;
  for (size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

GraphHash hashOf(const std::string &text, bool trains = true) {
  OwningOpRef<ModuleOp> module = parse(text);
  if (!module)
    return {};
  auto forward = module->lookupSymbol<func::FuncOp>("forward");
  return hashGraph(forward.front().getTerminator()->getOperand(0), trains);
}

TEST(GraphHash, OtherOpsOperandsAndParametersGiveOtherHashes) {
  uint64_t structure = hashOf(kModel).structure;
  EXPECT_NE(structure, 0u);
  for (auto [from, to] : {std::pair("unary relu", "unary tanh"),
                          {"reduce sum", "reduce max"},
                          {"\"w\"", "\"v\""},
                          {"relu %0", "relu %x"},
                          {"dpc.matmul %x, %w", "dpc.matmul %x, %w tb"},
                          {"\"x\"", "\"y\""}})
    EXPECT_NE(hashOf(changed(kModel, from, to)).structure, structure) << to;
}

/// dpc-opt removes the stops from models that are not trained.
TEST(GraphHash, AnEvaluationHasNoGradientsToStop) {
  std::string stopped =
      changed(kModel, "%1 = dpc.unary relu %0",
              "%s = dpc.convert %0 {dpc.stop_gradient} : tensor<8x4xf32> -> "
              "tensor<8x4xf32>\n  %1 = dpc.unary relu %s");
  EXPECT_NE(hashOf(stopped).structure, hashOf(kModel).structure);
  EXPECT_EQ(hashOf(stopped, false).structure, hashOf(kModel, false).structure);
}

TEST(GraphHash, AnotherBatchKeepsTheStructure) {
  GraphHash small = hashOf(kModel);
  std::string text = changed(kModel, "8x4", "16x4");
  EXPECT_EQ(hashOf(text).structure, small.structure);
  EXPECT_EQ(hashOf(text).values, small.values);
  GraphHash large = hashOf(changed(text, "3.125e-2", "1.5625e-2"));
  EXPECT_EQ(large.structure, small.structure);
  EXPECT_NE(large.values, small.values);
}

TEST(GraphHash, WhatTheLossDoesNotReadDoesNotCount) {
  GraphHash hash = hashOf(kModel),
            other = hashOf(changed(kModel, "exp", "log"));
  EXPECT_EQ(other.structure, hash.structure);
  EXPECT_EQ(other.values, hash.values);
}

TEST(GraphHash, TablesCountWithTheirElements) {
  auto table = [](const char *values) {
    return changed(kModel, "dense<3.125e-2> : tensor<f32> -> tensor<f32>",
                   std::string("dense<") + values +
                       "> : tensor<2xf32> -> tensor<2xf32>\n  %r = dpc.reduce "
                       "sum %c dims = [0] : tensor<2xf32> -> tensor<f32>");
  };
  auto used = [&](const char *values) {
    return hashOf(changed(table(values), "mul %2, %c", "mul %2, %r")).structure;
  };
  EXPECT_EQ(used("[1.0, 2.0]"), used("[1.0, 2.0]"));
  EXPECT_NE(used("[1.0, 2.0]"), used("[1.0, 3.0]"));
}

} // namespace
