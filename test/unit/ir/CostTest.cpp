//===- CostTest.cpp - FLOPs and bytes of ops ------------------------------===//
#include "ir/Dialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace dpc;

namespace {

class CostTest : public ::testing::Test {
protected:
  CostTest() { context.loadDialect<DpcDialect, func::FuncDialect>(); }

  CostOpInterface first(StringRef arguments, StringRef ops) {
    std::string text =
        ("func.func @f(" + arguments + ") {\n" + ops + "\nreturn\n}").str();
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    auto function = *module->getOps<func::FuncOp>().begin();
    return cast<CostOpInterface>(function.getBody().front().front());
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
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
  StringRef x = "tensor<2x4x9x9xf32>", w = "tensor<6x2x3x3xf32>",
            y = "tensor<2x6x4x4xf32>";
  auto flopsOf = [&](StringRef op, StringRef a, StringRef b, StringRef result) {
    std::string text =
        ("%0 = dpc." + op +
         " %a, %b strides = [2, 2] pads = [0, 0, 0, 0] dilations = [1, 1] : (" +
         a + ", " + b + ") -> " + result)
            .str();
    return first(("%a: " + a + ", %b: " + b).str(), text).getFlops();
  };
  double flops = 2.0 * (2 * 6 * 4 * 4) * (2 * 3 * 3);
  EXPECT_EQ(flopsOf("conv", x, w, y), flops);
  EXPECT_EQ(flopsOf("conv_grad_input", y, w, x), flops);
  EXPECT_EQ(flopsOf("conv_grad_filter", y, x, w), flops);
}

TEST_F(CostTest, CausalAttentionIsHalf) {
  auto flopsOf = [&](StringRef causal) {
    return first("%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x8x16xf32>",
                 ("%0:2 = dpc.attention %q, %k, %k scale = 1.0 " + causal +
                  ": (tensor<2x4x8x16xf32>, tensor<2x2x8x16xf32>, "
                  "tensor<2x2x8x16xf32>) -> (tensor<2x4x8x16xf32>, "
                  "tensor<2x4x8xf32>)")
                     .str())
        .getFlops();
  };
  EXPECT_EQ(flopsOf(""), 4.0 * 2 * 4 * 8 * 8 * 16);
  EXPECT_EQ(flopsOf("causal "), flopsOf("") / 2);
}

TEST_F(CostTest, WindowsLeaveTheScoresThatTheySee) {
  auto flopsOf = [&](int64_t queries, int64_t keys, bool causal,
                     int64_t window) {
    auto tensor = [](int64_t length) {
      return "tensor<1x1x" + std::to_string(length) + "x1xf32>";
    };
    std::string q = tensor(queries), k = tensor(keys),
                text = "%0:2 = dpc.attention %q, %k, %k scale = 1.0 ";
    text += causal ? "causal " : "";
    text += "window = " + std::to_string(window) + " : (" + q + ", " + k +
            ", " + k + ") -> (" + q + ", tensor<1x1x" +
            std::to_string(queries) + "xf32>)";
    return first("%q: " + q + ", %k: " + k, text).getFlops();
  };
  // By counting, 4 FLOPs for each score.
  EXPECT_GE(flopsOf(100, 10, true, 5), 0);
  for (auto [queries, keys] : {std::pair(8, 8), {3, 8}, {1, 8}})
    for (bool causal : {false, true})
      for (int64_t window = 1; window < keys; ++window) {
        int64_t seen = 0;
        for (int64_t t = 0; t < queries; ++t)
          for (int64_t s = 0; s < keys; ++s) {
            int64_t distance = t + keys - queries - s;
            seen += distance < window && (!causal || distance >= 0);
          }
        EXPECT_EQ(flopsOf(queries, keys, causal, window), 4.0 * seen)
            << queries << " " << keys << " " << causal << " " << window;
      }
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
  auto bytes = [&](Type element) {
    return sizeInBytes(RankedTensorType::get({3, 5}, element));
  };
  Builder builder(&context);
  EXPECT_EQ(bytes(builder.getI1Type()), 15);
  EXPECT_EQ(bytes(builder.getBF16Type()), 30);
  EXPECT_EQ(bytes(builder.getI64Type()), 120);
  EXPECT_EQ(sizeInBytes(RankedTensorType::get({}, builder.getF32Type())), 4);
}

/// Expects that all ops of the dialect have `Interface`, except the ops in
/// `without`, which are separated by spaces.
template <typename Interface>
void expectInterface(MLIRContext &context, StringRef without) {
  SmallVector<StringRef> exceptions;
  without.split(exceptions, ' ');
  for (RegisteredOperationName name :
       context.getRegisteredOperationsByDialect("dpc"))
    EXPECT_NE(name.hasInterface<Interface>(),
              llvm::is_contained(exceptions, name.stripDialect()))
        << name.getStringRef().str();
}

TEST_F(CostTest, EveryOpHasACost) {
  expectInterface<CostOpInterface>(context, "yield reshard");
}

TEST_F(CostTest, EveryGlobalOpHasAShardingRule) {
  expectInterface<ShardingRuleOpInterface>(
      context,
      "accumulate all_gather all_reduce all_to_all expert_tiles kernel "
      "mask attention_probs rank_slice attention_scores_grad "
      "reduce_scatter sum_squares yield reshard send recv stage_value "
      "ring_shift fetch store");
}

} // namespace
