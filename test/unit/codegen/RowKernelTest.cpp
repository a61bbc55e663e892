//===- RowKernelTest.cpp - Row and reduction kernels against loops --------===//
#include "test/unit/codegen/StepHarness.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

using namespace dpc::test;

namespace {

const double kInf = std::numeric_limits<double>::infinity();
const double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(Row, SoftmaxAndItsGradient) {
  Step step(R"(
func.func @step(%x: tensor<5x37xf32> {dpc.role = "input", dpc.name = "x"},
                %g: tensor<5x37xf32> {dpc.role = "input", dpc.name = "g"})
    -> (tensor<5x37xf32> {dpc.name = "y"}, tensor<5x37xf32> {dpc.name = "dx"}) {
  %y = dpc.softmax %x : tensor<5x37xf32> -> tensor<5x37xf32>
  %dx = dpc.softmax_grad %y, %g : (tensor<5x37xf32>, tensor<5x37xf32>) -> tensor<5x37xf32>
  return %y, %dx : tensor<5x37xf32>, tensor<5x37xf32>
})");
  Array x = randomArray(185, 1, -9, 9), g = randomArray(185, 2);
  x[3] = -kInf;
  step.run({{"x", x}, {"g", g}});
  Array y(185), dx(185);
  for (int i = 0; i < 5; ++i) {
    double sum = 0, dot = 0;
    for (int j = 0; j < 37; ++j)
      sum += std::exp(x[i * 37 + j]);
    for (int j = 0; j < 37; ++j) {
      y[i * 37 + j] = std::exp(x[i * 37 + j]) / sum;
      dot += y[i * 37 + j] * g[i * 37 + j];
    }
    for (int j = 0; j < 37; ++j)
      dx[i * 37 + j] = y[i * 37 + j] * (g[i * 37 + j] - dot);
  }
  step.expect({{"y", y}, {"dx", dx}});
}

// The elements of each row are products that the kernel computes. The maximum
// and the subtraction must use equally rounded products.
TEST(Row, SoftmaxOfHugeProducts) {
  Step step(R"(
func.func @step(%x: tensor<8x37xf32> {dpc.role = "input", dpc.name = "x"})
    -> (tensor<8x37xf32> {dpc.name = "y"}) {
  %c = dpc.constant dense<0.00591715984> : tensor<8x37xf32> -> tensor<8x37xf32>
  %p = dpc.binary mul %x, %c : (tensor<8x37xf32>, tensor<8x37xf32>) -> tensor<8x37xf32>
  %y = dpc.softmax %p : tensor<8x37xf32> -> tensor<8x37xf32>
  return %y : tensor<8x37xf32>
})");
  Array x(296);
  for (int i = 0; i < 8; ++i)
    std::fill_n(x.begin() + i * 37, 37, 1.6e12 + 3e9 * i);
  step.run({{"x", x}});
  expectClose(step.get("y"), Array(296, 1.0 / 37));
}

// Rows contain equal elements, infinities and NaN. NaN is never picked.
TEST(Row, TopKBreaksTiesByPosition) {
  Step step(R"(
func.func @step(%x: tensor<3x6xf32> {dpc.role = "input", dpc.name = "x"})
    -> (tensor<3x4xf32> {dpc.name = "v"}, tensor<3x4xi64> {dpc.name = "i"}, tensor<3x2xi64> {dpc.name = "least"}) {
  %v, %i = dpc.topk %x : tensor<3x6xf32> -> tensor<3x4xf32>, tensor<3x4xi64>
  %w, %j = dpc.topk %x smallest : tensor<3x6xf32> -> tensor<3x2xf32>, tensor<3x2xi64>
  return %v, %i, %j : tensor<3x4xf32>, tensor<3x4xi64>, tensor<3x2xi64>
})");
  step.set("x", {1, 5, 5, -2, 5, 0,                  // ties
                 -kInf, kInf, -kInf, 3, -kInf, kInf, // infinities
                 kNaN, 2, kNaN, kNaN, 1, kNaN});
  step.run();
  step.expect({{"v", {5, 5, 5, 1, kInf, kInf, 3, -kInf, 2, 1, -kInf, -kInf}},
               {"i", {1, 2, 4, 0, 1, 5, 3, 0, 1, 4, -1, -1}},
               {"least", {3, 5, 0, 2, 4, 1}}});
}

TEST(Row, TopKOfIntegers) {
  Step step(R"(
func.func @step(%x: tensor<2x5xi64> {dpc.role = "input", dpc.name = "x"})
    -> (tensor<2x5xi64> {dpc.name = "v"}, tensor<2x5xi64> {dpc.name = "i"}) {
  %v, %i = dpc.topk %x : tensor<2x5xi64> -> tensor<2x5xi64>, tensor<2x5xi64>
  return %v, %i : tensor<2x5xi64>, tensor<2x5xi64>
})");
  step.run({{"x", {3, -1, 7, 7, 0, 1, 2, 3, 4, 5}}});
  step.expect({{"v", {7, 7, 3, 0, -1, 5, 4, 3, 2, 1}},
               {"i", {2, 3, 0, 4, 1, 4, 3, 2, 1, 0}}});
}

TEST(Row, RunningSums) {
  Step step(R"(
func.func @step(%x: tensor<2x4xf32> {dpc.role = "input", dpc.name = "x"})
    -> (tensor<2x4xf32> {dpc.name = "a"}, tensor<2x4xf32> {dpc.name = "b"}, tensor<2x4xf32> {dpc.name = "c"}) {
  %a = dpc.cumsum %x : tensor<2x4xf32> -> tensor<2x4xf32>
  %b = dpc.cumsum %x exclusive : tensor<2x4xf32> -> tensor<2x4xf32>
  %c = dpc.cumsum %x exclusive reverse : tensor<2x4xf32> -> tensor<2x4xf32>
  return %a, %b, %c : tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>
})");
  step.run({{"x", {1, 2, 4, 8, -1, 0, 3, 5}}});
  step.expect({{"a", {1, 3, 7, 15, -1, -1, 2, 7}},
               {"b", {0, 1, 3, 7, 0, -1, -1, 2}},
               {"c", {14, 12, 8, 0, 8, 8, 5, 0}}});
}

// The input x = a + b of the norm is also a result, and the result of the norm
// is multiplied by another tensor.
TEST(Row, NormWithProducersAndConsumers) {
  Step step(R"(
func.func @step(%a: tensor<3x4x40xf32> {dpc.role = "input", dpc.name = "a"},
                %b: tensor<3x4x40xf32> {dpc.role = "input", dpc.name = "b"},
                %w: tensor<40xf32> {dpc.role = "parameter", dpc.name = "w"},
                %c: tensor<40xf32> {dpc.role = "parameter", dpc.name = "c"})
    -> (tensor<3x4x40xf32> {dpc.name = "x"}, tensor<3x4x40xf32> {dpc.name = "y"}, tensor<3x4xf32> {dpc.name = "mean"}, tensor<3x4xf32> {dpc.name = "rstd"}) {
  %r:4 = dpc.kernel %a, %b, %w, %c : (tensor<3x4x40xf32>, tensor<3x4x40xf32>, tensor<40xf32>, tensor<40xf32>) -> (tensor<3x4x40xf32>, tensor<3x4x40xf32>, tensor<3x4xf32>, tensor<3x4xf32>) {
  ^bb0(%p: tensor<3x4x40xf32>, %q: tensor<3x4x40xf32>, %s: tensor<40xf32>, %t: tensor<40xf32>):
    %x = dpc.binary add %p, %q : (tensor<3x4x40xf32>, tensor<3x4x40xf32>) -> tensor<3x4x40xf32>
    %y, %mean, %rstd = dpc.norm layer %x scale %s bias %t eps = 1.0e-5 : (tensor<3x4x40xf32>, tensor<40xf32>, tensor<40xf32>) -> (tensor<3x4x40xf32>, tensor<3x4xf32>, tensor<3x4xf32>)
    %z = dpc.binary mul %y, %p : (tensor<3x4x40xf32>, tensor<3x4x40xf32>) -> tensor<3x4x40xf32>
    dpc.yield %x, %z, %mean, %rstd : tensor<3x4x40xf32>, tensor<3x4x40xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  return %r#0, %r#1, %r#2, %r#3 : tensor<3x4x40xf32>, tensor<3x4x40xf32>, tensor<3x4xf32>, tensor<3x4xf32>
})");
  Array a = randomArray(480, 1), b = randomArray(480, 2, 98, 102);
  Array w = randomArray(40, 3), c = randomArray(40, 4);
  step.run({{"a", a}, {"b", b}, {"w", w}, {"c", c}});
  Array x(480), y(480), means(12), rstds(12);
  for (int i = 0; i < 12; ++i) {
    double mean = 0, var = 0;
    for (int j = 0; j < 40; ++j) {
      x[i * 40 + j] = float(a[i * 40 + j] + b[i * 40 + j]);
      mean += x[i * 40 + j] / 40;
    }
    for (int j = 0; j < 40; ++j)
      var += std::pow(x[i * 40 + j] - mean, 2) / 40;
    means[i] = mean;
    rstds[i] = 1 / std::sqrt(var + 1e-5);
    for (int j = 0; j < 40; ++j)
      y[i * 40 + j] =
          ((x[i * 40 + j] - mean) * rstds[i] * w[j] + c[j]) * a[i * 40 + j];
  }
  expectClose(step.get("x"), x);
  expectClose(step.get("y"), y, 3e-5); // x near 100 is rounded by 1e-5
  expectClose(step.get("mean"), means);
  expectClose(step.get("rstd"), rstds, 1e-5);
}

void checkNormGrad(bool layer) {
  std::string kind = layer ? "layer" : "rms";
  Step step(
      R"(
func.func @step(%x: tensor<6x40xf32> {dpc.role = "input", dpc.name = "x"},
                %dy: tensor<6x40xf32> {dpc.role = "input", dpc.name = "dy"},
                %w: tensor<40xf32> {dpc.role = "parameter", dpc.name = "w"})
    -> (tensor<6x40xf32> {dpc.name = "dx"}, tensor<40xf32> {dpc.name = "dw"}, tensor<40xf32> {dpc.name = "db"}) {
  %y, %mean, %rstd = dpc.norm )" +
      kind +
      R"( %x scale %w eps = 1.0e-5 : (tensor<6x40xf32>, tensor<40xf32>) -> (tensor<6x40xf32>, tensor<6xf32>, tensor<6xf32>)
  %dx, %dw, %db = dpc.norm_grad )" +
      kind +
      R"( %x, %mean, %rstd, %dy scale %w : (tensor<6x40xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6x40xf32>, tensor<40xf32>) -> (tensor<6x40xf32>, tensor<40xf32>, tensor<40xf32>)
  return %dx, %dw, %db : tensor<6x40xf32>, tensor<40xf32>, tensor<40xf32>
})");
  Array x = randomArray(240, 1), dy = randomArray(240, 2);
  Array w = randomArray(40, 3);
  step.run({{"x", x}, {"dy", dy}, {"w", w}});
  Array dx(240), dw(40), db(40);
  for (int i = 0; i < 6; ++i) {
    double mean = 0, var = 0, u = 0, uh = 0;
    for (int j = 0; j < 40; ++j)
      mean += layer ? x[i * 40 + j] / 40 : 0;
    for (int j = 0; j < 40; ++j)
      var += std::pow(x[i * 40 + j] - mean, 2) / 40;
    double rstd = 1 / std::sqrt(var + 1e-5);
    auto h = [&](int j) { return (x[i * 40 + j] - mean) * rstd; };
    for (int j = 0; j < 40; ++j) {
      dw[j] += dy[i * 40 + j] * h(j);
      db[j] += dy[i * 40 + j];
      u += layer ? dy[i * 40 + j] * w[j] / 40 : 0;
      uh += dy[i * 40 + j] * w[j] * h(j) / 40;
    }
    for (int j = 0; j < 40; ++j)
      dx[i * 40 + j] = rstd * (dy[i * 40 + j] * w[j] - u - h(j) * uh);
  }
  step.expect({{"dx", dx}, {"dw", dw}, {"db", db}}, 5e-6);
}
TEST(Row, LayerNormGradient) { checkNormGrad(true); }
TEST(Row, RmsNormGradient) { checkNormGrad(false); }

// Elements beyond the diagonal are NaN and are not read.
TEST(Row, CausalAttentionProbabilities) {
  Step step(R"(
func.func @step(%s: tensor<1x2x5x7xf32> {dpc.role = "input", dpc.name = "s"},
                %dp: tensor<1x2x5x7xf32> {dpc.role = "input", dpc.name = "dp"},
                %delta: tensor<1x2x5xf32> {dpc.role = "input", dpc.name = "delta"})
    -> (tensor<1x2x5x7xf32> {dpc.name = "p"}, tensor<1x2x5xf32> {dpc.name = "lse"}, tensor<1x2x5x7xf32> {dpc.name = "p2"}, tensor<1x2x5x7xf32> {dpc.name = "ds"}) {
  %p, %lse = dpc.attention_probs %s scale = 0.25 causal : (tensor<1x2x5x7xf32>) -> (tensor<1x2x5x7xf32>, tensor<1x2x5xf32>)
  %p2, %ds = dpc.attention_scores_grad %s, %lse, %dp, %delta scale = 0.25 causal : (tensor<1x2x5x7xf32>, tensor<1x2x5xf32>, tensor<1x2x5x7xf32>, tensor<1x2x5xf32>) -> (tensor<1x2x5x7xf32>, tensor<1x2x5x7xf32>)
  return %p, %lse, %p2, %ds : tensor<1x2x5x7xf32>, tensor<1x2x5xf32>, tensor<1x2x5x7xf32>, tensor<1x2x5x7xf32>
})");
  Array s = randomArray(70, 1, -8, 8), dp = randomArray(70, 2);
  Array delta = randomArray(10, 3), p(70), ds(70), lse(10);
  for (int r = 0; r < 10; ++r) {
    int visible = r % 5 + 3;
    double sum = 0;
    for (int j = 0; j < 7; ++j)
      if (j >= visible)
        s[r * 7 + j] = dp[r * 7 + j] = kNaN;
    for (int j = 0; j < visible; ++j)
      sum += std::exp(0.25 * s[r * 7 + j]);
    lse[r] = std::log(sum);
    for (int j = 0; j < visible; ++j) {
      p[r * 7 + j] = std::exp(0.25 * s[r * 7 + j]) / sum;
      ds[r * 7 + j] = 0.25 * p[r * 7 + j] * (dp[r * 7 + j] - delta[r]);
    }
  }
  step.run({{"s", s}, {"dp", dp}, {"delta", delta}});
  step.expect({{"p", p}, {"lse", lse}, {"p2", p}, {"ds", ds}});
}

// A recomputed forward pass may need only lse.
TEST(Row, AttentionStatisticWithoutProbabilities) {
  Step step(R"(
func.func @step(%s: tensor<1x1x2x3xf32> {dpc.role = "input", dpc.name = "s"}) -> (tensor<1x1x2xf32> {dpc.name = "lse"}) {
  %lse = dpc.kernel %s : (tensor<1x1x2x3xf32>) -> tensor<1x1x2xf32> {
  ^bb0(%a: tensor<1x1x2x3xf32>):
    %p, %l = dpc.attention_probs %a scale = 1.0 : (tensor<1x1x2x3xf32>) -> (tensor<1x1x2x3xf32>, tensor<1x1x2xf32>)
    dpc.yield %l : tensor<1x1x2xf32>
  }
  return %lse : tensor<1x1x2xf32>
})");
  Array s = randomArray(6, 4), lse(2);
  for (int r = 0; r < 2; ++r)
    lse[r] = std::log(std::exp(s[3 * r]) + std::exp(s[3 * r + 1]) +
                      std::exp(s[3 * r + 2]));
  step.run({{"s", s}});
  expectClose(step.get("lse"), lse);
}

TEST(Row, AttentionMaskIsAdded) {
  Step step(R"(
func.func @step(%s: tensor<2x2x3x5xf32> {dpc.role = "input", dpc.name = "s"},
                %m: tensor<2x1x1x5xf32> {dpc.role = "input", dpc.name = "m"})
    -> (tensor<2x2x3x5xf32> {dpc.name = "p"}) {
  %p, %lse = dpc.attention_probs %s mask %m scale = 0.5 : (tensor<2x2x3x5xf32>, tensor<2x1x1x5xf32>) -> (tensor<2x2x3x5xf32>, tensor<2x2x3xf32>)
  return %p : tensor<2x2x3x5xf32>
})");
  Array s = randomArray(60, 1), m(10, 0), p(60);
  m[1] = m[7] = -kInf;
  m[2] = -3;
  step.run({{"s", s}, {"m", m}});
  for (int r = 0; r < 12; ++r) {
    double sum = 0;
    auto e = [&](int j) {
      return std::exp(0.5 * s[r * 5 + j] + m[r / 6 * 5 + j]);
    };
    for (int j = 0; j < 5; ++j)
      sum += e(j);
    for (int j = 0; j < 5; ++j)
      p[r * 5 + j] = e(j) / sum;
  }
  expectClose(step.get("p"), p);
}

// The mask of the second sample hides every column, so its results and
// gradients are zero.
TEST(Row, FullyMaskedRowsHaveNoGradient) {
  for (const char *causal : {"", "causal"}) {
    Step step(
        std::string(R"(
func.func @step(%s: tensor<2x1x3x4xf32> {dpc.role = "input", dpc.name = "s"},
                %m: tensor<2x1x1x4xf32> {dpc.role = "input", dpc.name = "m"},
                %dp: tensor<2x1x3x4xf32> {dpc.role = "input", dpc.name = "dp"},
                %delta: tensor<2x1x3xf32> {dpc.role = "input", dpc.name = "delta"})
    -> (tensor<2x1x3x4xf32> {dpc.name = "p"}, tensor<2x1x3x4xf32> {dpc.name = "p2"}, tensor<2x1x3x4xf32> {dpc.name = "ds"}) {
  %p, %lse = dpc.attention_probs %s mask %m scale = 0.5 )") +
        causal +
        R"( : (tensor<2x1x3x4xf32>, tensor<2x1x1x4xf32>) -> (tensor<2x1x3x4xf32>, tensor<2x1x3xf32>)
  %p2, %ds = dpc.attention_scores_grad %s, %lse, %dp, %delta mask %m scale = 0.5 )" +
        causal +
        R"( : (tensor<2x1x3x4xf32>, tensor<2x1x3xf32>, tensor<2x1x3x4xf32>, tensor<2x1x3xf32>, tensor<2x1x1x4xf32>) -> (tensor<2x1x3x4xf32>, tensor<2x1x3x4xf32>)
  return %p, %p2, %ds : tensor<2x1x3x4xf32>, tensor<2x1x3x4xf32>, tensor<2x1x3x4xf32>
})");
    Array m(8, 0);
    std::fill(m.begin() + 4, m.end(), -kInf);
    step.run({{"s", randomArray(24, 1)},
              {"m", m},
              {"dp", randomArray(24, 2)},
              {"delta", {0.1, -0.2, 0.3, 0, 0, 0}}});
    Array p = step.get("p"), p2 = step.get("p2"), ds = step.get("ds");
    expectClose(p2, p);
    EXPECT_NE(ds[0], 0);
    for (int i = 0; i < 24; ++i) {
      EXPECT_TRUE(std::isfinite(ds[i])) << i;
      if (i >= 12)
        EXPECT_TRUE(p[i] == 0 && p2[i] == 0 && ds[i] == 0) << i;
    }
  }
}

// One kernel computes the maximum and the sum of a row. With 37, 1,000 and
// 5,000 columns, each thread has one, several and many elements.
TEST(Row, CrossEntropyWithRowMaxima) {
  for (int columns : {37, 1000, 5000}) {
    Step step(substitute(R"(
func.func @step(%l: tensor<5x${N}xf32> {dpc.role = "input", dpc.name = "l"},
                %labels: tensor<5xi64> {dpc.role = "input", dpc.name = "labels"})
    -> (tensor<5xf32> {dpc.name = "max"}, tensor<5xf32> {dpc.name = "sum"}, tensor<5xf32> {dpc.name = "picked"}) {
  %max = dpc.reduce max %l dims = [1] : tensor<5x${N}xf32> -> tensor<5xf32>
  %sum, %picked = dpc.cross_entropy_sums %l, %max, %labels : (tensor<5x${N}xf32>, tensor<5xf32>, tensor<5xi64>) -> (tensor<5xf32>, tensor<5xf32>)
  return %max, %sum, %picked : tensor<5xf32>, tensor<5xf32>, tensor<5xf32>
})",
                         {{"N", std::to_string(columns)}}));
    Array l = randomArray(5 * columns, 1, -30, 30),
          labels = {5, 0, -100, 36, 1};
    for (int j = 0; j < columns; ++j) {
      l[columns + j] = j - columns;         // each element is a new maximum
      l[2 * columns + j] = -1e30 * (j + 1); // the first element is the maximum
    }
    l[0] = l[3 * columns + 1] = l[4 * columns + columns - 1] = -kInf;
    step.run({{"l", l}, {"labels", labels}});
    Array max(5), sum(5), picked(5);
    for (int i = 0; i < 5; ++i) {
      auto row = l.begin() + i * columns;
      max[i] = *std::max_element(row, row + columns);
      for (int j = 0; j < columns; ++j)
        sum[i] += std::exp(row[j] - max[i]);
      picked[i] = labels[i] >= 0 ? row[static_cast<int>(labels[i])] : 0;
    }
    step.expect({{"max", max}, {"sum", sum}, {"picked", picked}});
  }
}

TEST(Row, CrossEntropyOfARowWithNaN) {
  Step step(R"(
func.func @step(%l: tensor<2x40xf32> {dpc.role = "input", dpc.name = "l"},
                %labels: tensor<2xi64> {dpc.role = "input", dpc.name = "labels"})
    -> (tensor<2xf32> {dpc.name = "sum"}, tensor<2xf32> {dpc.name = "picked"}) {
  %max = dpc.reduce max %l dims = [1] : tensor<2x40xf32> -> tensor<2xf32>
  %sum, %picked = dpc.cross_entropy_sums %l, %max, %labels : (tensor<2x40xf32>, tensor<2xf32>, tensor<2xi64>) -> (tensor<2xf32>, tensor<2xf32>)
  return %sum, %picked : tensor<2xf32>, tensor<2xf32>
})");
  Array l = randomArray(80, 1), labels = {5, 1};
  l[17] = kNaN;
  step.run({{"l", l}, {"labels", labels}});
  EXPECT_TRUE(std::isnan(step.get("sum")[0]));
  EXPECT_FALSE(std::isnan(step.get("sum")[1]));
}

// 7 columns over 2 ranks give 4 and 3 columns. The padding column is NaN.
TEST(Row, CrossEntropyOfASplitVocabulary) {
  Step step(R"(
func.func @step(%l: tensor<3x4xf32> {dpc.role = "input", dpc.name = "l"},
                %max: tensor<3xf32> {dpc.role = "input", dpc.name = "max"},
                %labels: tensor<3xi64> {dpc.role = "input", dpc.name = "labels"},
                %lse: tensor<3xf32> {dpc.role = "input", dpc.name = "lse"},
                %dloss: tensor<3xf32> {dpc.role = "input", dpc.name = "dloss"})
    -> (tensor<3xf32> {dpc.name = "sum"}, tensor<3xf32> {dpc.name = "picked"}, tensor<3x4xf32> {dpc.name = "dl"})
    attributes {dpc.mesh = #dpc.mesh<tp=2>} {
  %sum, %picked = dpc.cross_entropy_sums %l, %max, %labels global = tensor<3x7xf32, #dpc.sharding<#dpc.mesh<tp=2>, [{}, {tp} ]>> : (tensor<3x4xf32>, tensor<3xf32>, tensor<3xi64>) -> (tensor<3xf32>, tensor<3xf32>)
  %dl = dpc.cross_entropy_grad %l, %labels, %lse, %dloss global = tensor<3x7xf32, #dpc.sharding<#dpc.mesh<tp=2>, [{}, {tp} ]>> : (tensor<3x4xf32>, tensor<3xi64>, tensor<3xf32>, tensor<3xf32>) -> tensor<3x4xf32>
  return %sum, %picked, %dl : tensor<3xf32>, tensor<3xf32>, tensor<3x4xf32>
})");
  Array l = randomArray(12, 1), lse = {2, 2.5, kNaN}, dloss = {1, 0.5, 0};
  Array max = {2, 2, 2}, labels = {5, 1, -100};
  for (int i = 0; i < 3; ++i)
    l[i * 4 + 3] = kNaN;
  step.run({{"l", l},
            {"max", max},
            {"labels", labels},
            {"lse", lse},
            {"dloss", dloss}},
           1);
  Array sum(3), picked(3), dl(12);
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j) {
      sum[i] += std::exp(l[i * 4 + j] - 2);
      bool hit = labels[i] == 4 + j;
      picked[i] += hit ? l[i * 4 + j] : 0;
      dl[i * 4 + j] = dloss[i] == 0
                          ? 0
                          : (std::exp(l[i * 4 + j] - lse[i]) - hit) * dloss[i];
    }
  step.expect({{"sum", sum}, {"picked", picked}});
  Array actual = step.get("dl");
  for (int i = 0; i < 3; ++i)
    actual[i * 4 + 3] = 0; // the value of padding does not matter
  expectClose(actual, dl);
}

TEST(Reduce, AnyDimensions) {
  struct Case {
    const char *dims, *result;
    std::vector<int> keep;
  };
  const Case cases[] = {
      {"[2]", "tensor<3x4xf32>", {0, 1}}, {"[0]", "tensor<4x5xf32>", {1, 2}},
      {"[1]", "tensor<3x5xf32>", {0, 2}}, {"[0, 1]", "tensor<5xf32>", {2}},
      {"[0, 2]", "tensor<4xf32>", {1}},   {"[0, 1, 2]", "tensor<f32>", {}}};
  const int sizes[] = {3, 4, 5};
  for (std::string kind : {"sum", "max", "min", "prod"})
    for (const Case &c : cases) {
      SCOPED_TRACE(kind + c.dims);
      Step step("func.func @step(%x: tensor<3x4x5xf32> {dpc.role = \"input\", "
                "dpc.name = \"x\"}) -> (" +
                std::string(c.result) +
                " {dpc.name = \"y\"}) {\n %y = dpc.reduce " + kind +
                " %x dims = " + c.dims + " : tensor<3x4x5xf32> -> " + c.result +
                "\n return %y : " + c.result + "\n}");
      Array x = randomArray(60, 1, 0.5, 1.5);
      step.run({{"x", x}});
      int count = 1;
      for (int d : c.keep)
        count *= sizes[d];
      Array y(count, kind == "sum"    ? 0
                     : kind == "prod" ? 1
                     : kind == "max"  ? -kInf
                                      : kInf);
      for (int i = 0; i < 60; ++i) {
        int index[] = {i / 20, i / 5 % 4, i % 5}, position = 0;
        for (int d : c.keep)
          position = position * sizes[d] + index[d];
        double &out = y[position];
        out = kind == "sum"    ? out + x[i]
              : kind == "prod" ? out * x[i]
              : kind == "max"  ? std::max(out, x[i])
                               : std::min(out, x[i]);
      }
      expectClose(step.get("y"), y);
    }
}

TEST(Reduce, TogetherWithItsOperand) {
  Step step(R"(
func.func @step(%x: tensor<4x5xf32> {dpc.role = "input", dpc.name = "x"})
    -> (tensor<4x5xf32> {dpc.name = "y"}, tensor<5xf32> {dpc.name = "s"}) {
  %r:2 = dpc.kernel %x : (tensor<4x5xf32>) -> (tensor<4x5xf32>, tensor<5xf32>) {
  ^bb0(%a: tensor<4x5xf32>):
    %y = dpc.unary abs %a : tensor<4x5xf32> -> tensor<4x5xf32>
    %s = dpc.reduce sum %y dims = [0] : tensor<4x5xf32> -> tensor<5xf32>
    dpc.yield %y, %s : tensor<4x5xf32>, tensor<5xf32>
  }
  return %r#0, %r#1 : tensor<4x5xf32>, tensor<5xf32>
})");
  Array x = randomArray(20, 1), y(20), s(5);
  for (int i = 0; i < 20; ++i)
    s[i % 5] += y[i] = std::abs(x[i]);
  step.checksNumbers = true;
  step.run({{"x", x}});
  step.expect({{"y", y}, {"s", s}});
}

TEST(Reduce, SumOfSquaresIsInDoubles) {
  Step step(R"(
func.func @step(%x: tensor<100x1000xf32> {dpc.role = "input", dpc.name = "x"},
                %y: tensor<3xf32> {dpc.role = "input", dpc.name = "y"})
    -> (tensor<f32> {dpc.name = "n"}) {
  %n = dpc.sum_squares %x, %y : (tensor<100x1000xf32>, tensor<3xf32>) -> tensor<f32>
  return %n : tensor<f32>
})");
  Array x = randomArray(100000, 1, 0, 100), y = {1e5, 2, 3};
  step.run({{"x", x}, {"y", y}});
  double sum = 0;
  for (const Array *array : {&x, &y})
    for (double v : *array)
      sum += v * v;
  EXPECT_EQ(step.get("n")[0], static_cast<float>(sum));
}

} // namespace
