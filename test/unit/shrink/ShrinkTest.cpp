#include "passes/shrink/Shrink.h"

#include "mlir/IR/Verifier.h"
#include "test/unit/shard/ParseProgram.h"

using namespace mlir;

namespace dpc {
namespace {

std::vector<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape().vec();
}

using Shape = std::vector<int64_t>;

/// `count` layers x = x + x w_i on [batch, width]; `after` stands behind them.
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

int countOps(func::FuncOp func, StringRef name) {
  return llvm::count_if(func.getBody().front(), [&](Operation &op) {
    return op.getName().stripDialect() == name;
  });
}

TEST(CutRepeats, KeepsWhatWasAskedFor) {
  for (int64_t keep : {1, 2, 5}) {
    ParsedProgram program(layers(9, "", "%x8"));
    ASSERT_TRUE(program.module);
    auto repeats = cutRepeats(program.func, keep);
    ASSERT_EQ(repeats.size(), 1u);
    EXPECT_EQ(repeats[0].ops, 2);
    // The first layer reads the input, which no layer makes: its matmul is not
    // like the others, its sum is.
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

// A value of a layer that goes, read from far behind, does not keep it.
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

// heads * depth = columns of the weight, through slice and reshape; the stream
// the weight multiplies is a class of its own.
TEST(ShrinkSizes, KeepsProducts) {
  ParsedProgram program(R"(
    func.func @f(%x: tensor<8x512xf32> {dpc.batch_dim = 0 : i64}, %w: tensor<512x1536xf32>) -> tensor<8x16x32xf32> {
      %h = dpc.matmul %x, %w : (tensor<8x512xf32>, tensor<512x1536xf32>) -> tensor<8x1536xf32>
      %k = dpc.slice %h offsets = [0, 512] strides = [1, 1] : tensor<8x1536xf32> -> tensor<8x512xf32>
      %r = dpc.reshape %k : tensor<8x512xf32> -> tensor<8x16x32xf32>
      return %r : tensor<8x16x32xf32>
    })");
  ASSERT_TRUE(program.module);
  ShrinkOptions options;
  options.size = 4;
  options.batch = 2;
  ASSERT_TRUE(succeeded(shrinkSizes(program.func, options)));
  EXPECT_EQ(shapeOf(program.func.getArgument(0)), Shape({2, 4}));
  EXPECT_EQ(shapeOf(program.func.getArgument(1)), Shape({4, 3 * 4 * 4}));
  EXPECT_EQ(shapeOf(program.op("reshape")->getResult(0)), Shape({2, 4, 4}));
  EXPECT_EQ(cast<SliceOp>(program.op("slice")).getOffsets()[1], 16);
  EXPECT_TRUE(succeeded(verify(*program.module)));
}

// What tensor ranks split evenly they still do, and the other way round.
TEST(ShrinkSizes, KeepsWhatDivides) {
  ParsedProgram program(R"(
    func.func @f(%x: tensor<96x97x100x3xf32>) -> tensor<96x97x100x3xf32> {
      %y = dpc.unary exp %x : tensor<96x97x100x3xf32> -> tensor<96x97x100x3xf32>
      return %y : tensor<96x97x100x3xf32>
    })");
  ASSERT_TRUE(program.module);
  ShrinkOptions options;
  options.size = 8;
  options.oldParts = 8;
  options.newParts = 4;
  ASSERT_TRUE(succeeded(shrinkSizes(program.func, options)));
  // 96 = 8 * 12 -> 8; 97 is odd -> 9; 100 is even, 8 does not divide it -> 10.
  EXPECT_EQ(shapeOf(program.func.getArgument(0)), Shape({8, 9, 10, 3}));
}

// 48 x 40 does not align with 40 x 48: only their common factor is one index.
TEST(ShrinkSizes, PinsReshapesThatDoNotAlign) {
  ParsedProgram program(R"(
    func.func @f(%x: tensor<48x35xf32>) -> tensor<35x48xf32> {
      %r = dpc.reshape %x : tensor<48x35xf32> -> tensor<35x48xf32>
      return %r : tensor<35x48xf32>
    })");
  ASSERT_TRUE(program.module);
  ASSERT_TRUE(succeeded(shrinkSizes(program.func, {})));
  EXPECT_TRUE(succeeded(verify(*program.module)));
  EXPECT_EQ(shapeOf(program.func.getArgument(0)), Shape({48, 35}));
}

} // namespace
} // namespace dpc
