//===- ShrinkTest.cpp - Small programs of the same structure --------------===//
#include "passes/shrink/Shrink.h"

#include "ir/TensorUtils.h"
#include "mlir/IR/Verifier.h"
#include "test/unit/shard/ParseProgram.h"

using namespace mlir;

namespace dpc {
namespace {

using Shape = std::vector<int64_t>;

/// A program of `count` layers x = x + x w_i on [4, 100], followed by `after`.
std::string layers(int count, const std::string &after,
                   const std::string &result) {
  std::string arguments, body, value = "%x";
  for (int i = 0; i < count; ++i) {
    std::string n = std::to_string(i);
    arguments += ", %w" + n + ": tensor<100x100xf32> {dpc.name = \"w" + n +
                 "\", dpc.role = \"parameter\"}";
    body += "%m" + n + " = dpc.matmul " + value + ", %w" + n +
            " : (tensor<4x100xf32>, tensor<100x100xf32>) -> "
            "tensor<4x100xf32>\n";
    body += "%x" + n + " = dpc.binary add " + value + ", %m" + n +
            " : (tensor<4x100xf32>, tensor<4x100xf32>) -> tensor<4x100xf32>\n";
    value = "%x" + n;
  }
  return "func.func @forward(%x: tensor<4x100xf32> {dpc.role = \"input\", "
         "dpc.batch_dim = 0 : i64}" +
         arguments + ") -> tensor<4x100xf32> {\n" + body + after + "return " +
         result + " : tensor<4x100xf32>\n}";
}

Shape shape(Value value) { return shapeOf(value).vec(); }

int countOps(func::FuncOp func, StringRef name) {
  return llvm::count_if(func.getBody().front(), [&](Operation &op) {
    return op.getName().stripDialect() == name;
  });
}

TEST(CutRepeats, KeepsTheRequestedRepeats) {
  for (int64_t keep : {1, 2, 5}) {
    ParsedProgram program(layers(9, "", "%x8"));
    ASSERT_TRUE(program.module);
    auto repeats = cutRepeats(program.func, keep);
    ASSERT_EQ(repeats.size(), 1u);
    EXPECT_EQ(repeats[0].ops, 2);
    // The matmul of the first layer reads an input, so it does not match the
    // others. The addition of the first layer matches.
    EXPECT_EQ(repeats[0].before - repeats[0].after,
              9 - countOps(program.func, "matmul"));
    EXPECT_LE(countOps(program.func, "matmul"), keep + 1);
    EXPECT_GE(countOps(program.func, "matmul"), keep);
    EXPECT_EQ(program.func.getNumArguments(),
              1u + countOps(program.func, "matmul"));
    EXPECT_TRUE(succeeded(verify(*program.module)));
  }
}

TEST(CutRepeats, LeavesFewLayersAlone) {
  ParsedProgram program(layers(2, "", "%x1"));
  ASSERT_TRUE(program.module);
  EXPECT_TRUE(cutRepeats(program.func, 2).empty());
  EXPECT_EQ(countOps(program.func, "matmul"), 2);
}

// A layer is removed even if an op after the last layer reads its result.
TEST(CutRepeats, RedirectsLongEdges) {
  ParsedProgram program(layers(8,
                               "%y = dpc.binary mul %x7, %x4 : "
                               "(tensor<4x100xf32>, tensor<4x100xf32>) -> "
                               "tensor<4x100xf32>\n",
                               "%y"));
  ASSERT_TRUE(program.module);
  ASSERT_EQ(cutRepeats(program.func, 2).size(), 1u);
  EXPECT_LE(countOps(program.func, "matmul"), 3);
  EXPECT_EQ(countOps(program.func, "binary"),
            countOps(program.func, "matmul") + 1);
  EXPECT_TRUE(succeeded(verify(*program.module)));
}

// The columns of the weight remain 3 * heads * head_dim, through slice and
// reshape. The rows of the weight are another class.
TEST(ShrinkSizes, KeepsProducts) {
  ParsedProgram program(R"(
    func.func @f(%x: tensor<8x512xf32> {dpc.batch_dim = 0 : i64}, %w: tensor<512x1536xf32>) -> tensor<8x16x32xf32> {
      %h = dpc.matmul %x, %w : (tensor<8x512xf32>, tensor<512x1536xf32>) -> tensor<8x1536xf32>
      %k = dpc.slice %h offsets = [0, 512] strides = [1, 1] : tensor<8x1536xf32> -> tensor<8x512xf32>
      %r = dpc.reshape %k : tensor<8x512xf32> -> tensor<8x16x32xf32>
      return %r : tensor<8x16x32xf32>
    })");
  ASSERT_TRUE(program.module);
  ASSERT_TRUE(succeeded(shrinkSizes(program.func, {.size = 4, .batch = 2})));
  EXPECT_EQ(shape(program.func.getArgument(0)), Shape({2, 4}));
  EXPECT_EQ(shape(program.func.getArgument(1)), Shape({4, 3 * 4 * 4}));
  EXPECT_EQ(shape(program.op("reshape")->getResult(0)), Shape({2, 4, 4}));
  EXPECT_EQ(cast<SliceOp>(program.op("slice")).getOffsets()[1], 16);
  EXPECT_TRUE(succeeded(verify(*program.module)));
}

// A new size is divisible by newParts if and only if the old size is divisible
// by oldParts.
TEST(ShrinkSizes, KeepsDivisibility) {
  ParsedProgram program(R"(
    func.func @f(%x: tensor<96x97x100x3xf32>) -> tensor<96x97x100x3xf32> {
      %y = dpc.unary exp %x : tensor<96x97x100x3xf32> -> tensor<96x97x100x3xf32>
      return %y : tensor<96x97x100x3xf32>
    })");
  ASSERT_TRUE(program.module);
  ShrinkOptions options{.size = 8, .oldParts = 8, .newParts = 4};
  ASSERT_TRUE(succeeded(shrinkSizes(program.func, options)));
  // 96 is a multiple of 8 -> 8; 97 is odd -> 9; 100 is even but not a multiple
  // of 8 -> 10.
  EXPECT_EQ(shape(program.func.getArgument(0)), Shape({8, 9, 10, 3}));
}

// 48 x 35 and 35 x 48 do not align, so both sizes are pinned.
TEST(ShrinkSizes, PinsReshapesThatDoNotAlign) {
  ParsedProgram program(R"(
    func.func @f(%x: tensor<48x35xf32>) -> tensor<35x48xf32> {
      %r = dpc.reshape %x : tensor<48x35xf32> -> tensor<35x48xf32>
      return %r : tensor<35x48xf32>
    })");
  ASSERT_TRUE(program.module);
  ASSERT_TRUE(succeeded(shrinkSizes(program.func, {})));
  EXPECT_TRUE(succeeded(verify(*program.module)));
  EXPECT_EQ(shape(program.func.getArgument(0)), Shape({48, 35}));
}

} // namespace
} // namespace dpc
