//===- FusionTest.cpp - Fused ops give the same results -------------------===//
#include "test/unit/graph/GraphTest.h"

using namespace mlir;
using namespace dpc;
using namespace dpc::test;

namespace {

/// A function of primitive ops, and the fused op that is expected.
struct Idiom {
  std::string name;
  std::string fused;
  std::string text;
};

void PrintTo(const Idiom &idiom, std::ostream *os) { *os << idiom.name; }

/// Writes a function op by op. Each method returns the name of its result.
class Writer {
public:
  Writer(const std::string &arguments, const std::string &result)
      : text("func.func @f(" + arguments + ") -> " + result + " {\n"),
        result(result) {}

  /// Appends `op` (without dialect and types) with the types `from` and `to`.
  std::string op(const std::string &op, const std::vector<std::string> &from,
                 const std::string &to) {
    std::string types = llvm::join(from, ", ");
    return line("dpc." + op + " : " +
                (from.size() > 1 ? "(" + types + ")" : types) + " -> " + to);
  }
  std::string line(const std::string &op) {
    std::string name = "%v" + std::to_string(next++);
    text += "  " + name + " = " + op + "\n";
    return name;
  }
  std::string constant(const std::string &value, const std::string &type) {
    return op("constant dense<" + value + ">", {type}, type);
  }
  std::string unary(const std::string &kind, const std::string &x,
                    const std::string &type) {
    return op("unary " + kind + " " + x, {type}, type);
  }
  std::string binary(const std::string &kind, const std::string &a,
                     const std::string &b, const std::string &type) {
    return op("binary " + kind + " " + a + ", " + b, {type, type}, type);
  }
  std::string finish(const std::string &value) {
    return text + "  return " + value + " : " + result + "\n}";
  }

private:
  std::string text, result;
  int next = 0;
};

const std::string kX = "tensor<2x3x8xf64>", kRow = "tensor<2x3x1xf64>",
                  kReduced = "tensor<2x3xf64>", kVector = "tensor<8xf64>";

std::string reduceRow(Writer &w, const std::string &kind,
                      const std::string &x) {
  std::string sum =
      w.op("reduce " + kind + " " + x + " dims = [2]", {kX}, kReduced);
  return w.op("reshape " + sum, {kReduced}, kRow);
}
std::string widen(Writer &w, const std::string &row) {
  return w.op("broadcast " + row + " dims = [0, 1, 2]", {kRow}, kX);
}
std::string repeatVector(Writer &w, const std::string &vector) {
  return w.op("broadcast " + vector + " dims = [2]", {kVector}, kX);
}
std::string meanRow(Writer &w, const std::string &x) {
  std::string sum = reduceRow(w, "sum", x);
  return w.binary("mul", sum, w.constant("1.25e-1", kRow), kRow);
}

std::string gelu(bool dividesFirst) {
  Writer w("%x: " + kX, kX);
  std::string scaled =
      dividesFirst
          ? w.binary("div", "%x", w.constant("1.4142135381698608", kX), kX)
          : w.binary("mul", w.constant("0.70710678118", kX), "%x", kX);
  std::string one =
      w.binary("add", w.unary("erf", scaled, kX), w.constant("1.0", kX), kX);
  std::string half = w.constant("0.5", kX);
  if (dividesFirst)
    return w.finish(w.binary("mul", w.binary("mul", "%x", one, kX), half, kX));
  return w.finish(w.binary("mul", w.binary("mul", "%x", half, kX), one, kX));
}

std::string geluTanh(bool cubeByPow) {
  Writer w("%x: " + kX, kX);
  std::string cube =
      cubeByPow ? w.binary("pow", "%x", w.constant("3.0", kX), kX)
                : w.binary("mul", "%x", w.binary("mul", "%x", "%x", kX), kX);
  std::string inner = w.binary(
      "add", "%x", w.binary("mul", w.constant("0.044715", kX), cube, kX), kX);
  inner = w.binary("mul", inner, w.constant("0.7978845608028654", kX), kX);
  std::string one =
      w.binary("add", w.constant("1.0", kX), w.unary("tanh", inner, kX), kX);
  return w.finish(w.binary(
      "mul", w.binary("mul", w.constant("0.5", kX), "%x", kX), one, kX));
}

std::string silu() {
  Writer w("%x: " + kX, kX);
  return w.finish(w.binary("mul", "%x", w.unary("sigmoid", "%x", kX), kX));
}

std::string softmax() {
  Writer w("%x: " + kX, kX);
  std::string shifted =
      w.binary("sub", "%x", widen(w, reduceRow(w, "max", "%x")), kX);
  std::string e = w.unary("exp", shifted, kX);
  return w.finish(w.binary("div", e, widen(w, reduceRow(w, "sum", e)), kX));
}

/// Llama computes w * (x * (1 / sqrt(mean(x^2) + eps))).
std::string rmsNorm() {
  Writer w("%x: " + kX + ", %w: " + kVector, kX);
  std::string square = w.binary("pow", "%x", w.constant("2.0", kX), kX);
  std::string shifted =
      w.binary("add", meanRow(w, square), w.constant("1.0e-5", kRow), kRow);
  std::string inverse = w.binary("div", w.constant("1.0", kRow),
                                 w.unary("sqrt", shifted, kRow), kRow);
  std::string y = w.binary("mul", "%x", widen(w, inverse), kX);
  std::string scale = repeatVector(w, "%w");
  return w.finish(w.binary("mul", scale, y, kX));
}

std::string layerNorm() {
  Writer w("%x: " + kX + ", %w: " + kVector + ", %b: " + kVector, kX);
  std::string centered = w.binary("sub", "%x", widen(w, meanRow(w, "%x")), kX);
  std::string square = w.binary("pow", centered, w.constant("2.0", kX), kX);
  std::string shifted =
      w.binary("add", meanRow(w, square), w.constant("1.0e-5", kRow), kRow);
  std::string y =
      w.binary("div", centered, widen(w, w.unary("sqrt", shifted, kRow)), kX);
  std::string scale = repeatVector(w, "%w");
  std::string bias = repeatVector(w, "%b");
  return w.finish(w.binary("add", w.binary("mul", y, scale, kX), bias, kX));
}

std::string rope() {
  const std::string x = "tensor<2x4x3x8xf64>", half = "tensor<2x4x3x4xf64>",
                    table = "tensor<3x8xf64>", wide = "tensor<1x1x3x8xf64>";
  Writer w("%x: " + x + ", %c: " + table + ", %s: " + table, x);
  auto repeat = [&](const std::string &value) {
    std::string four = w.op("reshape " + value, {table}, wide);
    return w.op("broadcast " + four + " dims = [0, 1, 2, 3]", {wide}, x);
  };
  auto slice = [&](const std::string &offset) {
    return w.op("slice %x offsets = [0, 0, 0, " + offset +
                    "] strides = [1, 1, 1, 1]",
                {x}, half);
  };
  std::string plain = w.binary("mul", "%x", repeat("%c"), x);
  std::string negated = w.unary("neg", slice("4"), half);
  std::string rotated = w.op(
      "concat " + negated + ", " + slice("0") + " dim = 3", {half, half}, x);
  return w.finish(
      w.binary("add", plain, w.binary("mul", rotated, repeat("%s"), x), x));
}

const std::string kQ = "tensor<2x4x5x8xf64>", kK = "tensor<2x2x5x8xf64>",
                  kScores = "tensor<2x4x5x5xf64>",
                  kInfinity = "0xFFF0000000000000"; // negative

std::string scoresOf(Writer &w, const std::string &k) {
  const std::string transposed = "tensor<2x4x8x5xf64>";
  std::string t =
      w.op("transpose " + k + " perm = [0, 1, 3, 2]", {kQ}, transposed);
  return w.op("matmul %q, " + t, {kQ, transposed}, kScores);
}

std::string attend(Writer &w, const std::string &scores, const std::string &v) {
  std::string p = w.op("softmax " + scores, {kScores}, kScores);
  return w.finish(w.op("matmul " + p + ", " + v, {kScores, kQ}, kQ));
}

/// GPT-2 computes where(tril, q k^T / 4, -inf).
std::string attentionSelect() {
  const std::string bits = "tensor<1x1x5x5xi1>", mask = "tensor<2x4x5x5xi1>";
  Writer w("%q: " + kQ + ", %k: " + kQ + ", %v: " + kQ, kQ);
  std::string scores =
      w.binary("div", scoresOf(w, "%k"), w.constant("4.0", kScores), kScores);
  std::string rows;
  for (int i = 0; i < 5; ++i) {
    rows += i ? ", [" : "[";
    for (int j = 0; j < 5; ++j)
      rows += std::string(j ? ", " : "") + (j <= i ? "true" : "false");
    rows += "]";
  }
  std::string keep = w.constant("[[[" + rows + "]]]", bits);
  keep = w.unary("logical_not", keep, bits);
  keep = w.op("broadcast " + keep + " dims = [0, 1, 2, 3]", {bits}, mask);
  std::string minus = w.constant(kInfinity, kScores);
  scores = w.op("select " + keep + ", " + minus + ", " + scores,
                {mask, kScores, kScores}, kScores);
  return attend(w, scores, "%v");
}

/// Llama repeats grouped key heads, and builds an additive mask by comparing
/// iotas.
std::string attentionGrouped() {
  const std::string five = "tensor<2x2x1x5x8xf64>",
                    wide = "tensor<2x2x2x5x8xf64>", square = "tensor<5x5xf64>",
                    ints = "tensor<5x5xi64>", bits = "tensor<5x5xi1>";
  Writer w("%q: " + kQ + ", %k: " + kK + ", %v: " + kK, kQ);
  auto repeat = [&](const std::string &value) {
    std::string x = w.op("reshape " + value, {kK}, five);
    x = w.op("broadcast " + x + " dims = [0, 1, 2, 3, 4]", {five}, wide);
    return w.op("reshape " + x, {wide}, kQ);
  };
  std::string k = repeat("%k"), v = repeat("%v");
  std::string scores = w.binary("div", scoresOf(w, k),
                                w.constant("2.8284271", kScores), kScores);
  std::string row = w.line("dpc.iota dim = 0 : " + ints);
  std::string column = w.line("dpc.iota dim = 1 : " + ints);
  std::string above =
      w.op("compare gt " + column + ", " + row, {ints, ints}, bits);
  std::string minus = w.constant(kInfinity, square);
  std::string mask =
      w.op("select " + above + ", " + minus + ", " + w.constant("0.0", square),
           {bits, square, square}, square);
  mask = w.op("broadcast " + mask + " dims = [2, 3]", {square}, kScores);
  return attend(w, w.binary("add", scores, mask, kScores), v);
}

/// BERT adds (1 - mask) * -10000 with mask [B, S].
std::string attentionPadding() {
  const std::string ids = "tensor<2x5xi64>", flat = "tensor<2x1x1x5xf64>",
                    flatIds = "tensor<2x1x1x5xi64>";
  Writer w("%q: " + kQ + ", %k: " + kQ + ", %v: " + kQ + ", %m: " + ids, kQ);
  std::string scores = w.op("matmul %q, %k tb", {kQ, kQ}, kScores);
  scores = w.binary("mul", scores, w.constant("0.3", kScores), kScores);
  std::string mask = w.op("reshape %m", {ids}, flatIds);
  mask = w.op("convert " + mask, {flatIds}, flat);
  mask = w.binary("sub", w.constant("1.0", flat), mask, flat);
  mask = w.binary("mul", mask, w.constant("-2.5", flat), flat);
  mask = w.op("broadcast " + mask + " dims = [0, 1, 2, 3]", {flat}, kScores);
  return attend(w, w.binary("add", scores, mask, kScores), "%v");
}

/// transformers masks scores by (s <= t) & (s > t - 3), and joins a column of
/// `count` sinks with them. The softmax reads the scores minus their largest
/// number.
std::string attentionSinks(int64_t count) {
  const std::string ints = "tensor<5x5xi64>", bits = "tensor<5x5xi1>",
                    square = "tensor<5x5xf64>",
                    sinks = "tensor<" + std::to_string(count) + "xf64>",
                    wide = "tensor<2x4x5x6xf64>",
                    column = "tensor<2x4x5x1xf64>", rows = "tensor<2x4x5xf64>";
  Writer w("%q: " + kQ + ", %k: " + kQ + ", %v: " + kQ + ", %s: " + sinks, kQ);
  std::string scores =
      w.binary("mul", scoresOf(w, "%k"), w.constant("0.3", kScores), kScores);
  std::string row = w.line("dpc.iota dim = 0 : " + ints);
  std::string key = w.line("dpc.iota dim = 1 : " + ints);
  std::string three = w.line("dpc.constant dense<3> : " + ints + " -> " + ints);
  std::string start =
      w.op("binary sub " + row + ", " + three, {ints, ints}, ints);
  std::string past = w.op("compare le " + key + ", " + row, {ints, ints}, bits);
  std::string near =
      w.op("compare gt " + key + ", " + start, {ints, ints}, bits);
  std::string keep =
      w.op("binary logical_and " + past + ", " + near, {bits, bits}, bits);
  std::string mask = w.op("select " + keep + ", " + w.constant("0.0", square) +
                              ", " + w.constant("-3.0e38", square),
                          {bits, square, square}, square);
  mask = w.op("broadcast " + mask + " dims = [2, 3]", {square}, kScores);
  scores = w.binary("add", scores, mask, kScores);
  std::string sink =
      w.op("broadcast %s dims = [" + std::string(count == 1 ? "3" : "1") + "]",
           {sinks}, column);
  std::string all = w.op("concat " + scores + ", " + sink + " dim = 3",
                         {kScores, column}, wide);
  std::string most = w.op("reduce max " + all + " dims = [3]", {wide}, rows);
  most = w.op("broadcast " + most + " dims = [0, 1, 2]", {rows}, wide);
  all = w.binary("sub", all, most, wide);
  std::string p = w.op("softmax " + all, {wide}, wide);
  p = w.line("dpc.slice " + p +
             " offsets = [0, 0, 0, 0] strides = [1, 1, 1, 1] : " + wide +
             " -> " + kScores);
  return w.finish(w.op("matmul " + p + ", %v", {kScores, kQ}, kQ));
}

class Fusion : public testing::TestWithParam<Idiom> {};

TEST_P(Fusion, ComputesTheSameAsItsParts) {
  auto parts = parse(GetParam().text), fused = parse(GetParam().text);
  ASSERT_TRUE(parts && fused);
  ASSERT_TRUE(
      runPasses(*fused, "func.func(dpc-simplify,dpc-fuse,dpc-simplify)"));
  EXPECT_EQ(countOps(*fused, GetParam().fused), 1);
  auto f = parts->lookupSymbol<func::FuncOp>("f");
  auto inputs = randomInputs(f, 11, -2, 2);
  auto expected = runGlobal(f, inputs);
  auto actual = runGlobal(fused->lookupSymbol<func::FuncOp>("f"), inputs);
  // 1e-6, because exported constants have about 7 digits.
  EXPECT_LT(distance(actual[0], expected[0]), 1e-6);
  // Only reshapes and small masks remain as primitive ops.
  EXPECT_EQ(countOps(*fused, "dpc.unary") + countOps(*fused, "dpc.softmax") +
                countOps(*fused, "dpc.matmul"),
            GetParam().fused == "dpc.unary" || GetParam().fused == "dpc.softmax"
                ? 1
                : 0);
}

TEST_P(Fusion, SimplifyingAloneChangesNothing) {
  auto before = parse(GetParam().text), after = parse(GetParam().text);
  ASSERT_TRUE(before && after);
  ASSERT_TRUE(runPasses(*after, "func.func(dpc-simplify)"));
  auto f = before->lookupSymbol<func::FuncOp>("f");
  auto inputs = randomInputs(f, 12, -2, 2);
  auto expected = runGlobal(f, inputs);
  auto actual = runGlobal(after->lookupSymbol<func::FuncOp>("f"), inputs);
  EXPECT_LT(distance(actual[0], expected[0]), 1e-12);
}

INSTANTIATE_TEST_SUITE_P(
    Idioms, Fusion,
    testing::Values(
        Idiom{"gelu_divided", "dpc.unary", gelu(true)},
        Idiom{"gelu_multiplied", "dpc.unary", gelu(false)},
        Idiom{"gelu_tanh_pow", "dpc.unary", geluTanh(true)},
        Idiom{"gelu_tanh_mul", "dpc.unary", geluTanh(false)},
        Idiom{"silu", "dpc.unary", silu()},
        Idiom{"softmax", "dpc.softmax", softmax()},
        Idiom{"rms_norm", "dpc.norm", rmsNorm()},
        Idiom{"layer_norm", "dpc.norm", layerNorm()},
        Idiom{"rope", "dpc.rope", rope()},
        Idiom{"attention_select", "dpc.attention", attentionSelect()},
        Idiom{"attention_grouped", "dpc.attention", attentionGrouped()},
        Idiom{"attention_padding", "dpc.attention", attentionPadding()},
        Idiom{"attention_sinks", "dpc.attention", attentionSinks(4)},
        Idiom{"attention_one_sink", "dpc.attention", attentionSinks(1)}),
    [](const testing::TestParamInfo<Idiom> &info) { return info.param.name; });

} // namespace
