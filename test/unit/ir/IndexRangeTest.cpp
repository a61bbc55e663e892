//===- IndexRangeTest.cpp - The values that integers can have -------------===//
#include "ir/IndexRange.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace dpc;

namespace {

class IndexRangeTest : public ::testing::Test {
protected:
  IndexRangeTest() { context.loadDialect<DpcDialect, func::FuncDialect>(); }

  /// Returns %y of `ops`, which read %x and the constants %n of 5 and %zero.
  Value parse(StringRef ops) {
    std::string text =
        ("func.func @f(%x: tensor<3xi64>, %u: tensor<3xui8>) -> tensor<3xi64> {"
         "%n = dpc.constant dense<5> : tensor<3xi64> -> tensor<3xi64>\n"
         "%zero = dpc.constant dense<0> : tensor<3xi64> -> tensor<3xi64>\n" +
         ops + "\nreturn %y : tensor<3xi64>\n}")
            .str();
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    auto function = *module->getOps<func::FuncOp>().begin();
    return function.front().getTerminator()->getOperand(0);
  }

  std::pair<int64_t, int64_t> range(StringRef ops) {
    IndexRange found = rangeOf(parse(ops));
    return {found.low, found.high};
  }

  static std::string binary(const std::string &name, const std::string &op,
                            const std::string &a, const std::string &b) {
    return "%" + name + " = dpc.binary " + op + " %" + a + ", %" + b +
           " : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>\n";
  }
  static std::string select(const std::string &name, const std::string &op,
                            const std::string &a, const std::string &b) {
    return "%c_" + name + " = dpc.compare " + op + " %" + a + ", %" + b +
           " : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi1>\n%" + name +
           " = dpc.select %c_" + name + ", ";
  }
  static constexpr const char *kTypes =
      " : (tensor<3xi1>, tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>\n";

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

using Pair = std::pair<int64_t, int64_t>;
constexpr int64_t kNone = IndexRange::kNone, kEnd = IndexRange::kEnd;

TEST_F(IndexRangeTest, FollowsArithmetic) {
  EXPECT_EQ(range(binary("y", "add", "x", "n")), Pair(kNone, kEnd));
  EXPECT_EQ(range(binary("y", "maximum", "x", "zero")), Pair(0, kEnd));
  EXPECT_EQ(range(binary("a", "maximum", "x", "zero") +
                  binary("y", "minimum", "a", "n")),
            Pair(0, 5));
  EXPECT_EQ(range(binary("y", "rem", "x", "n")), Pair(-4, 4));
  EXPECT_EQ(range(binary("a", "rem", "x", "n") + binary("b", "mul", "a", "n") +
                  binary("y", "sub", "b", "n")),
            Pair(-25, 15));
  EXPECT_EQ(range("%a = dpc.iota dim = 0 : tensor<3xi64>\n" +
                  binary("y", "add", "a", "n")),
            Pair(5, 7));
  EXPECT_EQ(range("%y = dpc.convert %u : tensor<3xui8> -> tensor<3xi64>"),
            Pair(0, 255));
  EXPECT_EQ(range("%t = dpc.constant dense<[[3], [7]]> : tensor<2x1xi64> -> "
                  "tensor<2x1xi64>\n"
                  "%a = dpc.embedding %t, %x : (tensor<2x1xi64>, "
                  "tensor<3xi64>) -> tensor<3x1xi64>\n"
                  "%y = dpc.reshape %a : tensor<3x1xi64> -> tensor<3xi64>"),
            Pair(0, 7));
}

TEST_F(IndexRangeTest, ConditionsBoundTheirBranches) {
  std::string rest = binary("r", "rem", "x", "n");
  std::string more = binary("m", "add", "r", "n");
  EXPECT_EQ(
      range(rest + more + select("y", "lt", "r", "zero") + "%m, %r" + kTypes),
      Pair(0, 4));
  EXPECT_EQ(range(select("y", "gt", "x", "n") + "%n, %x" + kTypes),
            Pair(kNone, 5));
  EXPECT_EQ(range(select("y", "ge", "x", "zero") + "%x, %zero" + kTypes),
            Pair(0, kEnd));
  EXPECT_EQ(range(select("y", "eq", "x", "n") + "%zero, %x" + kTypes),
            Pair(kNone, kEnd));
}

TEST_F(IndexRangeTest, ExtremesHaveAPosition) {
  auto place = [&](const std::string &x, const std::string &element,
                   const std::string &best, const std::string &pick, int none,
                   bool orNaN) {
    std::string rows = "tensor<3x4x" + element + ">";
    std::string hit = orNaN ? "%any" : "%hit";
    return range("%w = dpc.reshape %x : tensor<3xi64> -> tensor<3x1xi64>\n"
                 "%i = dpc.broadcast %w dims = [0, 1] : tensor<3x1xi64> -> "
                 "tensor<3x4xi64>\n"
                 "%f = dpc.convert %i : tensor<3x4xi64> -> tensor<3x4xf32>\n"
                 "%best = dpc.reduce " +
                 best + " %" + x + " dims = [1] : " + rows + " -> tensor<3x" +
                 element +
                 ">\n"
                 "%b = dpc.broadcast %best dims = [0] : tensor<3x" +
                 element + "> -> " + rows +
                 "\n"
                 "%hit = dpc.compare eq %" +
                 x + ", %b : (" + rows + ", " + rows +
                 ") -> tensor<3x4xi1>\n"
                 "%nan = dpc.compare ne %" +
                 x + ", %" + x + " : (" + rows + ", " + rows +
                 ") -> tensor<3x4xi1>\n"
                 "%any = dpc.binary logical_or %hit, %nan : (tensor<3x4xi1>, "
                 "tensor<3x4xi1>) -> tensor<3x4xi1>\n"
                 "%at = dpc.iota dim = 1 : tensor<3x4xi64>\n"
                 "%none = dpc.constant dense<" +
                 std::to_string(none) +
                 "> : tensor<3x4xi64> -> tensor<3x4xi64>\n"
                 "%s = dpc.select " +
                 hit +
                 ", %at, %none : (tensor<3x4xi1>, "
                 "tensor<3x4xi64>, tensor<3x4xi64>) -> tensor<3x4xi64>\n"
                 "%y = dpc.reduce " +
                 pick +
                 " %s dims = [1] : tensor<3x4xi64> -> "
                 "tensor<3xi64>\n");
  };
  EXPECT_EQ(place("f", "f32", "max", "min", 4, true), Pair(0, 3));
  EXPECT_EQ(place("f", "f32", "min", "max", -1, true), Pair(0, 3));
  EXPECT_EQ(place("i", "i64", "max", "min", 4, false), Pair(0, 3));
  EXPECT_EQ(place("f", "f32", "max", "min", 4, false), Pair(0, 4))
      << "a row may be all NaN";
  EXPECT_EQ(place("i", "i64", "sum", "min", 4, false), Pair(0, 4));
  EXPECT_EQ(place("i", "i64", "max", "min", -1, false), Pair(-1, 3));
}

TEST_F(IndexRangeTest, TopElementsAreElements) {
  auto topk = [](const std::string &results) {
    return "%w = dpc.convert %u : tensor<3xui8> -> tensor<3xi64>\n" +
           binary("r", "rem", "w", "n") + results +
           " = dpc.topk %r : tensor<3xi64> -> tensor<3xi64>, tensor<3xi64>\n";
  };
  EXPECT_EQ(range(topk("%v, %y")), Pair(0, 2)) << "positions";
  EXPECT_EQ(range(topk("%y, %p")), Pair(0, 4)) << "elements";
}

TEST_F(IndexRangeTest, InputsMayBeMoved) {
  EXPECT_TRUE(isInputOrConstant(
      parse("%a = dpc.reshape %x : tensor<3xi64> -> tensor<1x3xi64>\n"
            "%y = dpc.reshape %a : tensor<1x3xi64> -> tensor<3xi64>")));
  EXPECT_FALSE(isInputOrConstant(parse(binary("y", "sub", "x", "n"))));
  std::string wrap = binary("m", "add", "x", "n") +
                     select("y", "lt", "x", "zero") + "%m, %x" + kTypes;
  EXPECT_FALSE(isInputOrConstant(parse(wrap)));
  EXPECT_EQ(wrapOf(parse(wrap).getDefiningOp<SelectOp>()), 5);
}

} // namespace
