#include "passes/shard/Factors.h"
#include "test/unit/shard/ParseProgram.h"

using namespace mlir;

namespace dpc {
namespace {

using Sizes = std::vector<int64_t>;

TEST(Factors, BoundariesReachTheWeight) {
  ParsedProgram program(R"(
    func.func @f(%x: tensor<8x64xf32>, %w: tensor<64x192xf32>) -> tensor<8x4x16xf32> {
      %h = dpc.matmul %x, %w : (tensor<8x64xf32>, tensor<64x192xf32>) -> tensor<8x192xf32>
      %k = dpc.slice %h offsets = [0, 64] strides = [1, 1] : tensor<8x192xf32> -> tensor<8x64xf32>
      %r = dpc.reshape %k : tensor<8x64xf32> -> tensor<8x4x16xf32>
      return %r : tensor<8x4x16xf32>
    })");
  ASSERT_TRUE(program.module);
  FactorAnalysis factors(program.func);
  Value weight = program.func.getArgument(1);
  EXPECT_EQ(factors.factors(weight, 0).vec(), Sizes({64}));
  EXPECT_EQ(factors.factors(weight, 1).vec(), Sizes({3, 4, 16}));
  // The heads of the weight and of the reshaped keys have the same class.
  Value keys = program.op("reshape")->getResult(0);
  EXPECT_EQ(factors.classOf(weight, 2), factors.classOf(keys, 1));
  EXPECT_NE(factors.classOf(weight, 2), factors.classOf(keys, 2));
  // The slice takes one of the parts q, k, v, so this factor cannot be split.
  for (IterFactor factor : factors.splittable(program.op("slice")))
    EXPECT_NE(factors.classOf(program.op("slice"), factor),
              factors.classOf(weight, 1));
}

TEST(Factors, EqualConstantsStayApart) {
  ParsedProgram program(R"(
    func.func @f(%tokens: tensor<35xf32>, %bias: tensor<35xf32>) -> (tensor<35xf32>, tensor<35xf32>) {
      %zero = dpc.constant dense<0.0> : tensor<35xf32> -> tensor<35xf32>
      %a = dpc.binary add %tokens, %zero : (tensor<35xf32>, tensor<35xf32>) -> tensor<35xf32>
      %b = dpc.binary add %bias, %zero : (tensor<35xf32>, tensor<35xf32>) -> tensor<35xf32>
      return %a, %b : tensor<35xf32>, tensor<35xf32>
    })");
  ASSERT_TRUE(program.module);
  Value tokens = program.func.getArgument(0),
        bias = program.func.getArgument(1);
  FactorAnalysis joined(program.func);
  EXPECT_EQ(joined.classOf(tokens, 0), joined.classOf(bias, 0));
  separateConstants(program.func);
  FactorAnalysis factors(program.func);
  EXPECT_NE(factors.classOf(tokens, 0), factors.classOf(bias, 0));
}

TEST(Factors, BlockedReshapeSplitsItsCommonFactor) {
  ParsedProgram program(R"(
    func.func @f(%x: tensor<6x4xf32>) -> tensor<4x6xf32> {
      %r = dpc.reshape %x : tensor<6x4xf32> -> tensor<4x6xf32>
      return %r : tensor<4x6xf32>
    })");
  ASSERT_TRUE(program.module);
  FactorAnalysis factors(program.func);
  SmallVector<IterFactor> free = factors.splittable(program.op("reshape"));
  ASSERT_EQ(free.size(), 1u);
  EXPECT_EQ(factors.factors(program.op("reshape"), free[0].dim)[0], 2);
}

TEST(Factors, PositionsCountFactorsOfAllDimensions) {
  ParsedProgram program(R"(
    func.func @f(%x: tensor<8x64xf32>) -> tensor<64x8xf32> {
      %r = dpc.reshape %x : tensor<8x64xf32> -> tensor<8x4x16xf32>
      %t = dpc.transpose %x perm = [1, 0] : tensor<8x64xf32> -> tensor<64x8xf32>
      return %t : tensor<64x8xf32>
    })");
  ASSERT_TRUE(program.module);
  FactorAnalysis factors(program.func);
  Operation *transpose = program.op("transpose");
  // Iteration dimension 1 is the first dimension of the result, 64 = 4 x 16.
  EXPECT_EQ(factors.positionIn(transpose, false, 0, {1, 1}), 2);
  EXPECT_EQ(factors.positionIn(transpose, true, 0, {1, 1}), 1);
  EXPECT_EQ(factors.factorSize(transpose->getResult(0), 1), 16);
}

} // namespace
} // namespace dpc
