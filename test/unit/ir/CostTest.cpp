//===- CostTest.cpp - FLOPs and bytes of ops against hand-made numbers ----===//
#include "ir/Dialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

using namespace dpc;

namespace {

/// Parses `ops` inside a function of `arguments` and returns the cost interface
/// of the first one.
class CostTest : public ::testing::Test {
protected:
  CostTest() { context.loadDialect<DpcDialect, mlir::func::FuncDialect>(); }

  CostOpInterface first(llvm::StringRef arguments, llvm::StringRef ops) {
    std::string text =
        ("func.func @f(" + arguments + ") {\n" + ops + "\nreturn\n}").str();
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    auto function = *module->getOps<mlir::func::FuncOp>().begin();
    return mlir::cast<CostOpInterface>(function.getBody().front().front());
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

TEST_F(CostTest, MatmulCountsMultiplyAndAdd) {
  CostOpInterface op = first("%a: tensor<3x5x7xf32>, %b: tensor<3x7x11xf32>",
                             "%0 = dpc.matmul %a, %b : (tensor<3x5x7xf32>, "
                             "tensor<3x7x11xf32>) -> tensor<3x5x11xf32>");
  EXPECT_EQ(op.getFlops(), 2.0 * 3 * 5 * 7 * 11);
  EXPECT_EQ(op.getBytes(), 4.0 * (3 * 5 * 7 + 3 * 7 * 11 + 3 * 5 * 11));
}

TEST_F(CostTest, TransposedMatmulContractsTheOtherDimension) {
  CostOpInterface op = first("%a: tensor<7x5xf32>, %b: tensor<11x7xf32>",
                             "%0 = dpc.matmul %a, %b ta tb : (tensor<7x5xf32>, "
                             "tensor<11x7xf32>) -> tensor<5x11xf32>");
  EXPECT_EQ(op.getFlops(), 2.0 * 5 * 7 * 11);
}

TEST_F(CostTest, MatmulBeyondTheRangeOfIntegers) {
  CostOpInterface op = first(
      "%a: tensor<4194304x4194304xbf16>, %b: tensor<4194304x4194304xbf16>",
      "%0 = dpc.matmul %a, %b : (tensor<4194304x4194304xbf16>, "
      "tensor<4194304x4194304xbf16>) -> tensor<4194304x4194304xbf16>");
  EXPECT_EQ(op.getFlops(), std::ldexp(1.0, 67));
}

TEST_F(CostTest, ConvAndItsGradientsDoTheSameProducts) {
  const char *arguments = "%x: tensor<2x4x9x9xf32>, %w: tensor<6x2x3x3xf32>, "
                          "%y: tensor<2x6x4x4xf32>";
  std::string window =
      " strides = [2, 2] pads = [0, 0, 0, 0] dilations = [1, 1] : ";
  double flops = 2.0 * (2 * 6 * 4 * 4) * (2 * 3 * 3);
  EXPECT_EQ(first(arguments, "%0 = dpc.conv %x, %w" + window +
                                 "(tensor<2x4x9x9xf32>, tensor<6x2x3x3xf32>) "
                                 "-> tensor<2x6x4x4xf32>")
                .getFlops(),
            flops);
  EXPECT_EQ(first(arguments, "%0 = dpc.conv_grad_input %y, %w" + window +
                                 "(tensor<2x6x4x4xf32>, tensor<6x2x3x3xf32>) "
                                 "-> tensor<2x4x9x9xf32>")
                .getFlops(),
            flops);
  EXPECT_EQ(first(arguments, "%0 = dpc.conv_grad_filter %y, %x" + window +
                                 "(tensor<2x6x4x4xf32>, tensor<2x4x9x9xf32>) "
                                 "-> tensor<6x2x3x3xf32>")
                .getFlops(),
            flops);
}

TEST_F(CostTest, CausalAttentionIsHalf) {
  const char *arguments = "%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x8x16xf32>";
  std::string signature =
      ": (tensor<2x4x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>) "
      "-> (tensor<2x4x8x16xf32>, tensor<2x4x8xf32>)";
  double full =
      first(arguments,
            "%0:2 = dpc.attention %q, %k, %k scale = 1.0 " + signature)
          .getFlops();
  double causal =
      first(arguments,
            "%0:2 = dpc.attention %q, %k, %k scale = 1.0 causal " + signature)
          .getFlops();
  EXPECT_EQ(full, 4.0 * 2 * 4 * 8 * 8 * 16);
  EXPECT_EQ(causal, full / 2);
}

TEST_F(CostTest, TopKComparesEveryElementForEveryPick) {
  CostOpInterface op =
      first("%x: tensor<8x16xf32>", "%0:2 = dpc.topk %x : tensor<8x16xf32> -> "
                                    "tensor<8x2xf32>, tensor<8x2xi64>");
  EXPECT_EQ(op.getFlops(), 2.0 * 8 * 16);
  EXPECT_EQ(op.getBytes(), 4.0 * 8 * 16 + (4.0 + 8.0) * 8 * 2);
}

TEST_F(CostTest, KernelSumsItsBodyAndMovesOnlyItsEnds) {
  CostOpInterface op = first(
      "%a: tensor<8xf32>, %b: tensor<8xf32>",
      R"(%0 = dpc.kernel %a, %b : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> {
         ^bb0(%x: tensor<8xf32>, %y: tensor<8xf32>):
           %s = dpc.binary add %x, %y : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
           %r = dpc.unary relu %s : tensor<8xf32> -> tensor<8xf32>
           dpc.yield %r : tensor<8xf32>
         })");
  EXPECT_EQ(op.getFlops(), 16.0);
  EXPECT_EQ(op.getBytes(), 3 * 8 * 4.0);
}

TEST_F(CostTest, CollectivesAndMovementComputeNothing) {
  EXPECT_EQ(first("%a: tensor<8xf32>", "%0 = dpc.all_reduce sum %a axes = "
                                       "[\"dp\"] : (tensor<8xf32>) -> "
                                       "tensor<8xf32>")
                .getFlops(),
            0.0);
  EXPECT_EQ(first("%a: tensor<8xf32>",
                  "%0 = dpc.reshape %a : tensor<8xf32> -> tensor<2x4xf32>")
                .getFlops(),
            0.0);
}

TEST_F(CostTest, TruthValuesTakeAByte) {
  auto bytes = [&](mlir::Type element) {
    return sizeInBytes(mlir::RankedTensorType::get({3, 5}, element));
  };
  mlir::Builder builder(&context);
  EXPECT_EQ(bytes(builder.getI1Type()), 15);
  EXPECT_EQ(bytes(builder.getBF16Type()), 30);
  EXPECT_EQ(bytes(builder.getI64Type()), 120);
  EXPECT_EQ(sizeInBytes(mlir::RankedTensorType::get({}, builder.getF32Type())),
            4);
}

// Every op of the dialect but the two that are no work has a cost.
TEST_F(CostTest, EveryOpHasACost) {
  for (mlir::RegisteredOperationName name :
       context.getRegisteredOperationsByDialect("dpc")) {
    llvm::StringRef op = name.getStringRef();
    bool isFree = op == "dpc.yield" || op == "dpc.reshard";
    EXPECT_NE(name.hasInterface<CostOpInterface>(), isFree) << op.str();
  }
}

// Every op but those of the local altitude says how it may be split.
TEST_F(CostTest, EveryGlobalOpHasAShardingRule) {
  const llvm::StringRef local[] = {"dpc.accumulate",
                                   "dpc.all_gather",
                                   "dpc.all_reduce",
                                   "dpc.all_to_all",
                                   "dpc.kernel",
                                   "dpc.mask",
                                   "dpc.attention_probs",
                                   "dpc.rank_slice",
                                   "dpc.attention_scores_grad",
                                   "dpc.reduce_scatter",
                                   "dpc.sum_squares",
                                   "dpc.yield",
                                   "dpc.reshard",
                                   "dpc.send",
                                   "dpc.recv",
                                   "dpc.stage_value",
                                   "dpc.ring_shift",
                                   "dpc.fetch",
                                   "dpc.store"};
  for (mlir::RegisteredOperationName name :
       context.getRegisteredOperationsByDialect("dpc")) {
    llvm::StringRef op = name.getStringRef();
    EXPECT_NE(name.hasInterface<ShardingRuleOpInterface>(),
              llvm::is_contained(local, op))
        << op.str();
  }
}

} // namespace
