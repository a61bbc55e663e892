//===- KernelTest.cpp - Elementwise kernels against plain loops -----------===//
#include "test/unit/codegen/StepHarness.h"

#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <limits>

using namespace dpc::test;

namespace {

const double kInf = std::numeric_limits<double>::infinity();
const double kNaN = std::numeric_limits<double>::quiet_NaN();

/// y = kind(x) on [n].
Array unary(const std::string &kind, const Array &x) {
  std::string type = "tensor<" + std::to_string(x.size()) + "xf32>";
  Step step("func.func @step(%x: " + type +
            " {dpc.role = \"input\", dpc.name = \"x\"}) -> (" + type +
            " {dpc.name = \"y\"}) {\n  %y = dpc.unary " + kind + " %x : " +
            type + " -> " + type + "\n  return %y : " + type + "\n}");
  step.run({{"x", x}});
  return step.get("y");
}

double cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
double pdf(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * M_PI); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double inner(double x) {
  return std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
}

struct UnaryCase {
  const char *kind;
  std::function<double(double)> reference;
  double low, high;
};

TEST(Kernel, UnaryFunctions) {
  const UnaryCase cases[] = {
      {"exp", [](double x) { return std::exp(x); }, -100, 80},
      {"tanh", [](double x) { return std::tanh(x); }, -12, 12},
      {"erf", [](double x) { return std::erf(x); }, -6, 6},
      {"log", [](double x) { return std::log(x); }, 1e-6, 100},
      {"sqrt", [](double x) { return std::sqrt(x); }, 0, 100},
      {"rsqrt", [](double x) { return 1 / std::sqrt(x); }, 0.01, 100},
      {"reciprocal", [](double x) { return 1 / x; }, 0.1, 100},
      {"neg", [](double x) { return -x; }, -3, 3},
      {"abs", [](double x) { return std::abs(x); }, -3, 3},
      {"floor", [](double x) { return std::floor(x); }, -3, 3},
      {"ceil", [](double x) { return std::ceil(x); }, -3, 3},
      {"relu", [](double x) { return std::max(x, 0.0); }, -3, 3},
      {"sin", [](double x) { return std::sin(x); }, -2000, 2000},
      {"cos", [](double x) { return std::cos(x); }, -2000, 2000},
      {"sigmoid", sigmoid, -20, 20},
      {"silu", [](double x) { return x * sigmoid(x); }, -20, 20},
      {"silu_grad",
       [](double x) {
         double s = sigmoid(x);
         return s * (1 + x * (1 - s));
       },
       -20, 20},
      {"gelu", [](double x) { return x * cdf(x); }, -8, 8},
      {"gelu_grad", [](double x) { return cdf(x) + x * pdf(x); }, -8, 8},
      {"gelu_tanh",
       [](double x) { return 0.5 * x * (1 + std::tanh(inner(x))); }, -8, 8},
      {"gelu_tanh_grad",
       [](double x) {
         double t = std::tanh(inner(x));
         return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * std::sqrt(2 / M_PI) *
                                    (1 + 3 * 0.044715 * x * x);
       },
       -8, 8}};
  for (const UnaryCase &c : cases) {
    SCOPED_TRACE(c.kind);
    Array x = randomArray(4099, 7, c.low, c.high), expected;
    for (double v : x)
      expected.push_back(c.reference(v));
    expectClose(unary(c.kind, x), expected, 1e-6);
  }
}

TEST(Kernel, ExpIsRelativelyAccurate) {
  Array x = randomArray(20000, 1, -87, 88);
  Array y = unary("exp", x);
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_LE(std::abs(y[i] / std::exp(x[i]) - 1), 2e-7) << x[i];
}

TEST(Kernel, SpecialValues) {
  expectClose(unary("exp", {-kInf, kInf, kNaN, 0, -200, 200}),
              {0, kInf, kNaN, 1, 0, kInf});
  expectClose(unary("tanh", {-kInf, kInf, kNaN, 0}), {-1, 1, kNaN, 0});
  expectClose(unary("erf", {-kInf, kInf, kNaN, 0}), {-1, 1, kNaN, 0});
  expectClose(unary("relu", {-kInf, kInf, kNaN}), {0, kInf, kNaN});
  expectClose(unary("sign", {-2, 0, 3, kNaN}), {-1, 0, 1, kNaN});
}

TEST(Kernel, BroadcastsTransposesAndSlicesAreIndices) {
  Step step(R"(
func.func @step(%x: tensor<4x6xf32> {dpc.role = "input", dpc.name = "x"},
                %b: tensor<8xf32> {dpc.role = "input", dpc.name = "b"})
    -> (tensor<3x4xf32> {dpc.name = "y"}) {
  %y = dpc.kernel %x, %b : (tensor<4x6xf32>, tensor<8xf32>) -> tensor<3x4xf32> {
  ^bb0(%p: tensor<4x6xf32>, %q: tensor<8xf32>):
    %t = dpc.transpose %p perm = [1, 0] : tensor<4x6xf32> -> tensor<6x4xf32>
    %s = dpc.slice %t offsets = [1, 0] strides = [2, 1] : tensor<6x4xf32> -> tensor<3x4xf32>
    %r = dpc.reshape %q : tensor<8xf32> -> tensor<2x4xf32>
    %o = dpc.slice %r offsets = [1, 0] strides = [1, 1] : tensor<2x4xf32> -> tensor<1x4xf32>
    %w = dpc.broadcast %o dims = [0, 1] : tensor<1x4xf32> -> tensor<3x4xf32>
    %z = dpc.binary mul %s, %w : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    dpc.yield %z : tensor<3x4xf32>
  }
  return %y : tensor<3x4xf32>
})");
  Array x = randomArray(24, 1), b = randomArray(8, 2), expected;
  step.run({{"x", x}, {"b", b}});
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 4; ++j)
      expected.push_back(x[j * 6 + 1 + 2 * i] * b[4 + j]);
  expectClose(step.get("y"), expected);
}

// The sizes are larger than a tile, but not multiples of a tile.
TEST(Kernel, TransposesInTiles) {
  Step step(R"(
func.func @step(%x: tensor<2x70x101xf32> {dpc.role = "input", dpc.name = "x"})
    -> (tensor<2x101x70xf32> {dpc.name = "y"}) {
  %y = dpc.transpose %x perm = [0, 2, 1] : tensor<2x70x101xf32> -> tensor<2x101x70xf32>
  return %y : tensor<2x101x70xf32>
})");
  Array x = randomArray(2 * 70 * 101, 1), expected;
  step.run({{"x", x}});
  for (int b = 0; b < 2; ++b)
    for (int i = 0; i < 101; ++i)
      for (int j = 0; j < 70; ++j)
        expected.push_back(x[(b * 70 + j) * 101 + i]);
  expectClose(step.get("y"), expected);
}

TEST(Kernel, ReshapesThatCrossDimensions) {
  Step step(R"(
func.func @step(%x: tensor<4x6xf32> {dpc.role = "input", dpc.name = "x"})
    -> (tensor<8x3xf32> {dpc.name = "y"}) {
  %y = dpc.kernel %x : (tensor<4x6xf32>) -> tensor<8x3xf32> {
  ^bb0(%p: tensor<4x6xf32>):
    %t = dpc.transpose %p perm = [1, 0] : tensor<4x6xf32> -> tensor<6x4xf32>
    %r = dpc.reshape %t : tensor<6x4xf32> -> tensor<8x3xf32>
    %z = dpc.unary neg %r : tensor<8x3xf32> -> tensor<8x3xf32>
    dpc.yield %z : tensor<8x3xf32>
  }
  return %y : tensor<8x3xf32>
})");
  Array x = randomArray(24, 1), expected;
  step.run({{"x", x}});
  for (int i = 0; i < 24; ++i)
    expected.push_back(-x[(i % 4) * 6 + i / 4]);
  expectClose(step.get("y"), expected);
}

TEST(Kernel, ConcatAndPad) {
  Step step(R"(
func.func @step(%x: tensor<2x3xf32> {dpc.role = "input", dpc.name = "x"},
                %y: tensor<2x2xf32> {dpc.role = "input", dpc.name = "y"})
    -> (tensor<2x5xf32> {dpc.name = "c"}, tensor<2x7xf32> {dpc.name = "p"}, tensor<2x5xf32> {dpc.name = "n"}) {
  %c = dpc.concat %x, %y dim = 1 : (tensor<2x3xf32>, tensor<2x2xf32>) -> tensor<2x5xf32>
  %p = dpc.pad %x low = [0, 1] strides = [1, 2] : tensor<2x3xf32> -> tensor<2x7xf32>
  %n = dpc.kernel %x, %y : (tensor<2x3xf32>, tensor<2x2xf32>) -> tensor<2x5xf32> {
  ^bb0(%a: tensor<2x3xf32>, %b: tensor<2x2xf32>):
    %j = dpc.concat %a, %b dim = 1 : (tensor<2x3xf32>, tensor<2x2xf32>) -> tensor<2x5xf32>
    %m = dpc.unary neg %j : tensor<2x5xf32> -> tensor<2x5xf32>
    dpc.yield %m : tensor<2x5xf32>
  }
  return %c, %p, %n : tensor<2x5xf32>, tensor<2x7xf32>, tensor<2x5xf32>
})");
  step.run({{"x", {1, 2, 3, 4, 5, 6}}, {"y", {7, 8, 9, 10}}});
  step.expect({{"c", {1, 2, 3, 7, 8, 4, 5, 6, 9, 10}},
               {"n", {-1, -2, -3, -7, -8, -4, -5, -6, -9, -10}},
               {"p", {0, 1, 0, 2, 0, 3, 0, 0, 4, 0, 5, 0, 6, 0}}});
}

// 7 rows over 4 ranks give 2, 2, 2 and 1 rows. The padding is NaN.
TEST(Kernel, MaskSelectsWhatExists) {
  const char *text = R"(
func.func @step(%x: tensor<2x3xf32> {dpc.role = "input", dpc.name = "x"})
    -> (tensor<2x3xf32> {dpc.name = "y"})
    attributes {dpc.mesh = #dpc.mesh<dp=4>} {
  %y = dpc.mask %x value = 0.0 global = tensor<7x3xf32, #dpc.sharding<#dpc.mesh<dp=4>, [{dp}, {} ]>> : tensor<2x3xf32> -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
})";
  Step step(text);
  step.run({{"x", {1, 2, 3, kNaN, kNaN, kNaN}}}, 3);
  expectClose(step.get("y"), {1, 2, 3, 0, 0, 0});
  step.run({}, 2);
  expectClose(step.get("y"), {1, 2, 3, kNaN, kNaN, kNaN});
}

// For integers, an infinite fill value means the limit of their type. If 4
// elements are divided over 3 ranks, the last rank has only padding, so its max
// or min is the neutral element.
TEST(Kernel, MaskOfIntegers) {
  for (std::string type : {"i32", "i64"})
    for (bool isMin : {false, true}) {
      SCOPED_TRACE(type + (isMin ? " min" : " max"));
      Step step(substitute(
          R"(
func.func @step(%x: tensor<2x${T}> {dpc.role = "input", dpc.name = "x"})
    -> (tensor<2x${T}> {dpc.name = "y"}, tensor<${T}> {dpc.name = "m"}) attributes {dpc.mesh = #dpc.mesh<dp=3>} {
  %y = dpc.mask %x value = ${fill} global = tensor<4x${T}, #dpc.sharding<#dpc.mesh<dp=3>, [{dp} ]>> : tensor<2x${T}> -> tensor<2x${T}>
  %m = dpc.reduce ${kind} %y dims = [0] : tensor<2x${T}> -> tensor<${T}>
  return %y, %m : tensor<2x${T}>, tensor<${T}>
})",
          {{"T", type},
           {"kind", isMin ? "min" : "max"},
           {"fill", isMin ? "0x7FF0000000000000" : "0xFFF0000000000000"}}));
      step.run({{"x", isMin ? Array{7, 5} : Array{-7, -5}}}, 1);
      EXPECT_EQ(step.get("m")[0], isMin ? 5 : -5);
      step.run({}, 2);
      double bits = type == "i32" ? 31 : 63;
      double end = isMin ? std::exp2(bits) - 1 : -std::exp2(bits);
      EXPECT_EQ(step.get("y"), Array(2, end));
      EXPECT_EQ(step.get("m")[0], end);
    }
}

// In {3, 4:tp, 2} with tp = 3, the first two ranks hold 2 of the 4 elements of
// the middle factor, and the last rank holds none.
TEST(Kernel, MaskAndIotaOverFactors) {
  const char *text = R"(
func.func @step(%x: tensor<12xf32> {dpc.role = "input", dpc.name = "x"})
    -> (tensor<12xf32> {dpc.name = "y"}, tensor<12xi64> {dpc.name = "i"})
    attributes {dpc.mesh = #dpc.mesh<tp=3>} {
  %y = dpc.mask %x value = 9.0 global = tensor<24xf32, #dpc.sharding<#dpc.mesh<tp=3>, [{3, 4:tp, 2} ]>> : tensor<12xf32> -> tensor<12xf32>
  %i = dpc.iota dim = 0 global = tensor<24xi64, #dpc.sharding<#dpc.mesh<tp=3>, [{3, 4:tp, 2} ]>> : tensor<12xi64>
  return %y, %i : tensor<12xf32>, tensor<12xi64>
})";
  Step step(text);
  Array x = randomArray(12, 3);
  step.run({{"x", x}}, 1);
  step.expect({{"y", x}, {"i", {4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23}}});
  step.run({}, 2);
  expectClose(step.get("y"), Array(12, 9.0));
}

TEST(Kernel, IntegersAndBooleans) {
  Step step(R"(
func.func @step(%x: tensor<6xi64> {dpc.role = "input", dpc.name = "x"})
    -> (tensor<6xi1> {dpc.name = "c"}, tensor<6xf32> {dpc.name = "f"}, tensor<6xi64> {dpc.name = "s"}) {
  %k = dpc.constant dense<[0, 1, 2, 3, 4, 5]> : tensor<6xi64> -> tensor<6xi64>
  %c = dpc.compare ge %x, %k : (tensor<6xi64>, tensor<6xi64>) -> tensor<6xi1>
  %f = dpc.convert %c : tensor<6xi1> -> tensor<6xf32>
  %s = dpc.select %c, %x, %k : (tensor<6xi1>, tensor<6xi64>, tensor<6xi64>) -> tensor<6xi64>
  return %c, %f, %s : tensor<6xi1>, tensor<6xf32>, tensor<6xi64>
})");
  step.set("x", {5, 0, 7, -1, 4, -9});
  // The constant becomes a tensor of the plan, stored in constants.bin.
  ASSERT_EQ(step.plan.tensors.size(), 1u);
  step.run({{"constant.0", {0, 1, 2, 3, 4, 5}}});
  step.expect({{"c", {1, 0, 1, 0, 1, 0}},
               {"f", {1, 0, 1, 0, 1, 0}},
               {"s", {5, 1, 7, 3, 4, 5}}});
}

TEST(Kernel, ConstantsInsideKernels) {
  Step step(R"(
func.func @step(%x: tensor<2x3xf32> {dpc.role = "input", dpc.name = "x"})
    -> (tensor<2x3xf32> {dpc.name = "y"}) {
  %y = dpc.kernel %x : (tensor<2x3xf32>) -> tensor<2x3xf32> {
  ^bb0(%a: tensor<2x3xf32>):
    %k = dpc.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32> -> tensor<2x3xf32>
    %m = dpc.constant dense<[[true, false, true], [false, true, false]]> : tensor<2x3xi1> -> tensor<2x3xi1>
    %s = dpc.select %m, %k, %a : (tensor<2x3xi1>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    dpc.yield %s : tensor<2x3xf32>
  }
  return %y : tensor<2x3xf32>
})");
  step.run({{"x", {-1, -2, -3, -4, -5, -6}}});
  expectClose(step.get("y"), {1, -2, 3, -4, 5, -6});
}

TEST(Kernel, RopeAndItsInverse) {
  Step step(R"(
func.func @step(%x: tensor<2x3x4x6xf32> {dpc.role = "input", dpc.name = "x"},
                %c: tensor<4x6xf32> {dpc.role = "input", dpc.name = "c"},
                %s: tensor<4x6xf32> {dpc.role = "input", dpc.name = "s"})
    -> (tensor<2x3x4x6xf32> {dpc.name = "y"}, tensor<2x3x4x6xf32> {dpc.name = "z"}) {
  %y = dpc.rope %x, %c, %s : (tensor<2x3x4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<2x3x4x6xf32>
  %z = dpc.rope %x, %c, %s inverse : (tensor<2x3x4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<2x3x4x6xf32>
  return %y, %z : tensor<2x3x4x6xf32>, tensor<2x3x4x6xf32>
})");
  Array x = randomArray(144, 1), c = randomArray(24, 2), s = randomArray(24, 3);
  step.run({{"x", x}, {"c", c}, {"s", s}});
  Array y(144), z(144);
  for (int r = 0; r < 24; ++r)
    for (int j = 0; j < 6; ++j) {
      int t = r % 4, o = j < 3 ? j + 3 : j - 3;
      double sign = j < 3 ? -1 : 1;
      y[r * 6 + j] =
          x[r * 6 + j] * c[t * 6 + j] + sign * x[r * 6 + o] * s[t * 6 + j];
      z[r * 6 + j] =
          x[r * 6 + j] * c[t * 6 + j] - sign * x[r * 6 + o] * s[t * 6 + o];
    }
  step.expect({{"y", y}, {"z", z}});
}

TEST(Kernel, EmbeddingOfASplitTable) {
  const char *text = R"(
func.func @step(%t: tensor<3x2xf32> {dpc.role = "parameter", dpc.name = "t", dpc.global = tensor<7x2xf32, #dpc.sharding<#dpc.mesh<tp=3>, [{tp}, {} ]>>},
                %ids: tensor<5xi64> {dpc.role = "input", dpc.name = "ids"},
                %dy: tensor<5x2xf32> {dpc.role = "input", dpc.name = "dy"})
    -> (tensor<5x2xf32> {dpc.name = "y"}, tensor<3x2xf32> {dpc.name = "dt"})
    attributes {dpc.mesh = #dpc.mesh<tp=3>} {
  %y = dpc.embedding %t, %ids global = tensor<7x2xf32, #dpc.sharding<#dpc.mesh<tp=3>, [{tp}, {} ]>> : (tensor<3x2xf32>, tensor<5xi64>) -> tensor<5x2xf32>
  %dt = dpc.embedding_grad %ids, %dy global = tensor<7x2xf32, #dpc.sharding<#dpc.mesh<tp=3>, [{tp}, {} ]>> : (tensor<5xi64>, tensor<5x2xf32>) -> tensor<3x2xf32>
  return %y, %dt : tensor<5x2xf32>, tensor<3x2xf32>
})";
  Step step(text);
  step.set("t", {1, 2, 3, 4, 5, 6});
  step.set("ids", {3, 0, 5, 3, 6});
  step.set("dy", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  step.run({}, 1); // rows 3, 4, 5
  step.expect(
      {{"y", {1, 2, 0, 0, 5, 6, 1, 2, 0, 0}}, {"dt", {8, 10, 0, 0, 5, 6}}});
  step.set("t", {1, 2, kNaN, kNaN, kNaN, kNaN});
  step.run({}, 2); // row 6, then padding
  expectClose(step.get("y"), {0, 0, 0, 0, 0, 0, 0, 0, 1, 2});
}

TEST(Kernel, AdamWUpdatesInPlace) {
  Step step(R"(
func.func @step(%p: tensor<37xf32> {dpc.role = "parameter", dpc.name = "p"},
                %m: tensor<37xf32> {dpc.role = "state", dpc.name = "m", dpc.of = "p", dpc.slot = "exp_avg"},
                %v: tensor<37xf32> {dpc.role = "state", dpc.name = "v", dpc.of = "p", dpc.slot = "exp_avg_sq"},
                %g: tensor<37xf32> {dpc.role = "input", dpc.name = "g"},
                %lr: tensor<f32> {dpc.role = "scalar", dpc.name = "lr"},
                %t: tensor<f32> {dpc.role = "scalar", dpc.name = "step"})
    -> (tensor<37xf32> {dpc.name = "p", dpc.ties = 0 : i64}, tensor<37xf32> {dpc.name = "m", dpc.ties = 1 : i64}, tensor<37xf32> {dpc.name = "v", dpc.ties = 2 : i64}) {
  %one = dpc.constant dense<0.5> : tensor<f32> -> tensor<f32>
  %p1, %m1, %v1 = dpc.adamw %p, %m, %v, %g, %one, %lr, %t beta1 = 9.0e-1 beta2 = 9.5e-1 eps = 1.0e-8 weight_decay = 1.0e-1 {dpc.phase = "update"} : (tensor<37xf32>, tensor<37xf32>, tensor<37xf32>, tensor<37xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<37xf32>, tensor<37xf32>, tensor<37xf32>)
  return %p1, %m1, %v1 : tensor<37xf32>, tensor<37xf32>, tensor<37xf32>
})");
  Array p = randomArray(37, 1), m = randomArray(37, 2, -0.1, 0.1);
  Array v = randomArray(37, 3, 0, 0.1), g = randomArray(37, 4);
  step.run(
      {{"p", p}, {"m", m}, {"v", v}, {"g", g}, {"lr", {0.01}}, {"step", {3}}});
  adamwReference(p, m, v, g);
  step.expect({{"p", p}, {"m", m}, {"v", v}});
}

TEST(Kernel, SgdStartsItsBuffer) {
  Step step(R"(
func.func @step(%p: tensor<5xf32> {dpc.role = "parameter", dpc.name = "p"},
                %b: tensor<5xf32> {dpc.role = "state", dpc.name = "b", dpc.of = "p", dpc.slot = "momentum"},
                %g: tensor<5xf32> {dpc.role = "input", dpc.name = "g"},
                %lr: tensor<f32> {dpc.role = "scalar", dpc.name = "lr"},
                %t: tensor<f32> {dpc.role = "scalar", dpc.name = "step"})
    -> (tensor<5xf32> {dpc.name = "p", dpc.ties = 0 : i64}, tensor<5xf32> {dpc.name = "b", dpc.ties = 1 : i64}) {
  %one = dpc.constant dense<1.0> : tensor<f32> -> tensor<f32>
  %p1, %b1 = dpc.sgd %p, %b, %g, %one, %lr, %t momentum = 5.0e-1 weight_decay = 1.0e-1 {dpc.phase = "update"} : (tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<5xf32>, tensor<5xf32>)
  return %p1, %b1 : tensor<5xf32>, tensor<5xf32>
})");
  Array p = randomArray(5, 1), g = randomArray(5, 2), b(5, 0);
  step.set("p", p);
  step.set("b", Array(5, kNaN));
  step.set("g", g);
  step.set("lr", {0.1});
  for (int t = 1; t <= 2; ++t) {
    step.run({{"step", {double(t)}}});
    for (int i = 0; i < 5; ++i) {
      double grad = g[i] + 0.1 * p[i];
      b[i] = t == 1 ? grad : 0.5 * b[i] + grad;
      p[i] -= 0.1 * b[i];
    }
    step.expect({{"p", p}, {"b", b}});
  }
}

TEST(Kernel, UnsupportedTypeIsNamed) {
  Step step(R"(
func.func @step(%x: tensor<4xf8E8M0FNU> {dpc.role = "input", dpc.name = "x"})
    -> (tensor<4xf8E8M0FNU> {dpc.name = "y"}) {
  %y = dpc.unary exp %x : tensor<4xf8E8M0FNU> -> tensor<4xf8E8M0FNU>
  return %y : tensor<4xf8E8M0FNU>
})");
  expectSays(step.error, "'f8E8M0FNU' can be planned but not executed");
}

} // namespace
