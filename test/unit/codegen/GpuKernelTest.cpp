//===- GpuKernelTest.cpp - Kernels for GPUs -------------------------------===//
#include "test/unit/codegen/StepHarness.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

using namespace dpc::test;

namespace {

const double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(Gpu, LinesEndInPartsOfVectors) {
  for (int64_t n : {1, 3, 31, 33, 1023, 4101}) {
    std::string type = "tensor<" + std::to_string(n) + "xf32>";
    Step step("func.func @step(%x: " + type +
              " {dpc.role = \"input\", dpc.name = \"x\"}) -> (" + type +
              " {dpc.name = \"y\"}) {\n  %y = dpc.unary neg %x : " + type +
              " -> " + type + "\n  return %y : " + type + "\n}");
    Array x = randomArray(n, 1), expected;
    for (double v : x)
      expected.push_back(-v);
    step.run({{"x", x}});
    expectClose(step.get("y"), expected);
  }
}

// Teams have one warp, several warps, or fewer threads than a row has columns.
TEST(Gpu, RowsOfTeamsOfAllSizes) {
  const char *text = R"(
func.func @step(%x: tensor<3xNxT> {dpc.role = "input", dpc.name = "x"},
                %w: tensor<NxT> {dpc.role = "parameter", dpc.name = "w"})
    -> (tensor<3xNxT> {dpc.name = "y"}, tensor<3xNxT> {dpc.name = "s"}) {
  %y, %m, %r = dpc.norm rms %x scale %w eps = 1.0e-5 : (tensor<3xNxT>, tensor<NxT>) -> (tensor<3xNxT>, tensor<3xf32>, tensor<3xf32>)
  %s = dpc.softmax %x : tensor<3xNxT> -> tensor<3xNxT>
  return %y, %s : tensor<3xNxT>, tensor<3xNxT>
})";
  for (const char *type : {"f32", "bf16", "f16"})
    for (int64_t n : {5, 96, 300, 1025, 4608}) {
      SCOPED_TRACE(std::string(type) + " " + std::to_string(n));
      Step step(replaceAll(replaceAll(text, "N", std::to_string(n)), "xT",
                           std::string("x") + type));
      ASSERT_EQ(step.error, "");
      step.set("x", randomArray(3 * n, 1));
      step.set("w", randomArray(n, 2));
      // The rounded values.
      Array x = step.get("x"), w = step.get("w"), y(3 * n), s(3 * n);
      step.run();
      for (int64_t i = 0; i < 3; ++i) {
        double squares = 0, sum = 0;
        for (int64_t j = 0; j < n; ++j) {
          squares += x[i * n + j] * x[i * n + j] / double(n);
          sum += std::exp(x[i * n + j]);
        }
        for (int64_t j = 0; j < n; ++j) {
          y[i * n + j] = x[i * n + j] / std::sqrt(squares + 1e-5) * w[j];
          s[i * n + j] = std::exp(x[i * n + j]) / sum;
        }
      }
      double tolerance = *type == 'f' && type[1] == '3' ? 3e-6
                         : *type == 'f'                 ? 2e-3
                                                        : 1e-2;
      step.expect({{"y", y}, {"s", s}}, tolerance);
    }
}

TEST(Gpu, SumsInParts) {
  const char *text = R"(
func.func @step(%x: tensor<3x1500x40xf32> {dpc.role = "input", dpc.name = "x"})
    -> (tensor<40xf32> {dpc.name = "columns"}, tensor<3x40xf32> {dpc.name = "middle"}, tensor<3xf32> {dpc.name = "rows"}, tensor<f32> {dpc.name = "all"}, tensor<1500xf32> {dpc.name = "ends"}, tensor<f32> {dpc.name = "squares"}) {
  %c = dpc.reduce sum %x dims = [0, 1] : tensor<3x1500x40xf32> -> tensor<40xf32>
  %m = dpc.reduce max %x dims = [1] : tensor<3x1500x40xf32> -> tensor<3x40xf32>
  %r = dpc.reduce sum %x dims = [1, 2] : tensor<3x1500x40xf32> -> tensor<3xf32>
  %a = dpc.reduce min %x dims = [0, 1, 2] : tensor<3x1500x40xf32> -> tensor<f32>
  %e = dpc.reduce sum %x dims = [0, 2] : tensor<3x1500x40xf32> -> tensor<1500xf32>
  %s = dpc.sum_squares %x, %e : (tensor<3x1500x40xf32>, tensor<1500xf32>) -> tensor<f32>
  return %c, %m, %r, %a, %e, %s : tensor<40xf32>, tensor<3x40xf32>, tensor<3xf32>, tensor<f32>, tensor<1500xf32>, tensor<f32>
})";
  Step step(text);
  Array x = randomArray(3 * 1500 * 40, 1), columns(40), rows(3), ends(1500);
  Array middle(120, -9), all(1, 9), squares(1);
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t j = 0; j < 1500; ++j)
      for (int64_t k = 0; k < 40; ++k) {
        double v = x[(i * 1500 + j) * 40 + k];
        columns[k] += v;
        middle[i * 40 + k] = std::max(middle[i * 40 + k], v);
        rows[i] += v;
        all[0] = std::min(all[0], v);
        ends[j] += v;
        squares[0] += v * v;
      }
  for (double v : ends)
    squares[0] += v * v;
  step.checksNumbers = true;
  step.run({{"x", x}});
  expectClose(step.get("columns"), columns, 2e-5);
  expectClose(step.get("middle"), middle, 0);
  expectClose(step.get("rows"), rows, 1e-4);
  expectClose(step.get("all"), all, 0);
  expectClose(step.get("ends"), ends, 1e-5);
  expectClose(step.get("squares"), squares, 1e-6);
  // A second run gives the same bits, so the order of accumulation is fixed.
  Array first = step.get("rows");
  step.run();
  EXPECT_EQ(step.get("rows"), first);
}

// Causal rows end at the diagonal; the elements after it are NaN. Most rows
// have several vectors.
TEST(Gpu, CausalRowsOfManyColumns) {
  const int64_t n = 200;
  Step step(R"(
func.func @step(%s: tensor<1x1x200x200xf32> {dpc.role = "input", dpc.name = "s"})
    -> (tensor<1x1x200x200xf32> {dpc.name = "p"}, tensor<1x1x200xf32> {dpc.name = "lse"}) {
  %p, %lse = dpc.attention_probs %s scale = 0.5 causal : (tensor<1x1x200x200xf32>) -> (tensor<1x1x200x200xf32>, tensor<1x1x200xf32>)
  return %p, %lse : tensor<1x1x200x200xf32>, tensor<1x1x200xf32>
})");
  Array s = randomArray(n * n, 1, -8, 8), p(n * n), lse(n);
  for (int64_t i = 0; i < n; ++i) {
    double sum = 0;
    for (int64_t j = 0; j <= i; ++j)
      sum += std::exp(s[i * n + j] / 2);
    for (int64_t j = 0; j < n; ++j) {
      p[i * n + j] = j <= i ? std::exp(s[i * n + j] / 2) / sum : 0;
      if (j > i)
        s[i * n + j] = kNaN;
    }
    lse[i] = std::log(sum);
  }
  step.run({{"s", s}});
  step.expect({{"p", p}, {"lse", lse}});
}

// Ids occur many times, and some rows of the table have no id.
TEST(Gpu, EmbeddingGradientOfRepeatedIds) {
  Step step(R"(
func.func @step(%ids: tensor<5x40xi64> {dpc.role = "input", dpc.name = "ids"},
                %dy: tensor<5x40x24xbf16> {dpc.role = "input", dpc.name = "dy"})
    -> (tensor<17x24xbf16> {dpc.name = "dt"}) {
  %dt = dpc.embedding_grad %ids, %dy : (tensor<5x40xi64>, tensor<5x40x24xbf16>) -> tensor<17x24xbf16>
  return %dt : tensor<17x24xbf16>
})");
  ASSERT_EQ(step.error, "");
  Array ids(200), expected(17 * 24);
  for (int i = 0; i < 200; ++i)
    ids[i] = i % 7 == 0 ? 3 : i % 11;
  step.checksNumbers = true;
  step.set("ids", ids);
  step.set("dy", randomArray(200 * 24, 1));
  Array dy = step.get("dy");
  for (int i = 0; i < 200; ++i)
    for (int j = 0; j < 24; ++j)
      expected[int(ids[i]) * 24 + j] += dy[i * 24 + j];
  step.run();
  expectClose(step.get("dt"), expected, 5e-3);
}

// A separate stage sums over rows. Each part of a sum covers several rows.
TEST(Gpu, NormGradientOverManyRows) {
  const int64_t rows = 700, n = 36;
  Step step(R"(
func.func @step(%x: tensor<7x100x36xf32> {dpc.role = "input", dpc.name = "x"},
                %dy: tensor<7x100x36xf32> {dpc.role = "input", dpc.name = "dy"},
                %m: tensor<7x100xf32> {dpc.role = "input", dpc.name = "m"},
                %r: tensor<7x100xf32> {dpc.role = "input", dpc.name = "r"})
    -> (tensor<7x100x36xf32> {dpc.name = "dx"}, tensor<36xf32> {dpc.name = "dw"}, tensor<36xf32> {dpc.name = "db"}) {
  %dx, %dw, %db = dpc.norm_grad layer %x, %m, %r, %dy : (tensor<7x100x36xf32>, tensor<7x100xf32>, tensor<7x100xf32>, tensor<7x100x36xf32>) -> (tensor<7x100x36xf32>, tensor<36xf32>, tensor<36xf32>)
  return %dx, %dw, %db : tensor<7x100x36xf32>, tensor<36xf32>, tensor<36xf32>
})");
  Array x = randomArray(rows * n, 1), dy = randomArray(rows * n, 2);
  Array m = randomArray(rows, 3), r = randomArray(rows, 4, 0.5, 1.5);
  Array dx(rows * n), dw(n), db(n);
  for (int64_t i = 0; i < rows; ++i) {
    double u = 0, uh = 0;
    auto h = [&](int64_t j) { return (x[i * n + j] - m[i]) * r[i]; };
    for (int64_t j = 0; j < n; ++j) {
      dw[j] += dy[i * n + j] * h(j);
      db[j] += dy[i * n + j];
      u += dy[i * n + j] / double(n);
      uh += dy[i * n + j] * h(j) / double(n);
    }
    for (int64_t j = 0; j < n; ++j)
      dx[i * n + j] = r[i] * (dy[i * n + j] - u - h(j) * uh);
  }
  step.checksNumbers = true;
  step.run({{"x", x}, {"dy", dy}, {"m", m}, {"r", r}});
  expectClose(step.get("dx"), dx, 5e-6);
  step.expect({{"dw", dw}, {"db", db}}, 5e-5);
}

// The logarithm does not call a library.
TEST(Gpu, LogarithmsAreAccurate) {
  Array x = randomArray(5000, 1, -87, 88), expected;
  for (double &v : x) {
    v = float(std::exp(v));
    expected.push_back(std::log(v));
  }
  const double inf = std::numeric_limits<double>::infinity();
  for (double v : {0.0, -1.0, inf, kNaN, 1.0, double(1e-40F)}) {
    x.push_back(v);
    expected.push_back(std::log(v));
  }
  Step step(R"(
func.func @step(%x: tensor<5006xf32> {dpc.role = "input", dpc.name = "x"}) -> (tensor<5006xf32> {dpc.name = "y"}) {
  %y = dpc.unary log %x : tensor<5006xf32> -> tensor<5006xf32>
  return %y : tensor<5006xf32>
})");
  step.run({{"x", x}});
  expectClose(step.get("y"), expected, 3e-7);
}

// p * scale + g, where `scale` is a broadcast row of 768 elements. All accesses
// move 16 bytes.
TEST(Gpu, ElementwiseKernelsMoveVectors) {
  const char *text = R"(
func.func @step(%x: tensor<8x100x768xT> {dpc.role = "input", dpc.name = "x"},
                %g: tensor<8x100x768xT> {dpc.role = "input", dpc.name = "g"},
                %w: tensor<768xT> {dpc.role = "input", dpc.name = "w"})
    -> (tensor<8x100x768xT> {dpc.name = "y"}) {
  %y = dpc.kernel %x, %g, %w : (tensor<8x100x768xT>, tensor<8x100x768xT>, tensor<768xT>) -> tensor<8x100x768xT> {
  ^bb0(%a: tensor<8x100x768xT>, %b: tensor<8x100x768xT>, %c: tensor<768xT>):
    %s = dpc.broadcast %c dims = [2] : tensor<768xT> -> tensor<8x100x768xT>
    %m = dpc.binary mul %a, %s : (tensor<8x100x768xT>, tensor<8x100x768xT>) -> tensor<8x100x768xT>
    %z = dpc.binary add %m, %b : (tensor<8x100x768xT>, tensor<8x100x768xT>) -> tensor<8x100x768xT>
    dpc.yield %z : tensor<8x100x768xT>
  }
  return %y : tensor<8x100x768xT>
})";
  for (const char *type : {"f32", "bf16", "f16"})
    for (const char *target : {"sm_80", "sm_90"}) {
      SCOPED_TRACE(std::string(type) + " " + target);
      std::string ptx =
          ptxOf(replaceAll(text, "xT", std::string("x") + type), target);
      EXPECT_EQ(countOf(ptx, std::string(".target ") + target), 1u);
      EXPECT_EQ(countOf(ptx, "ld.global"), 3u) << ptx;
      EXPECT_EQ(countOf(ptx, "st.global"), 1u) << ptx;
      EXPECT_EQ(countOf(ptx, ".v4.b32"), 4u) << ptx;
    }
}

// Rows need shuffles and one barrier, but no atomics or library calls.
TEST(Gpu, RowKernelsReduceInsideTheirBlock) {
  std::string ptx = ptxOf(R"(
func.func @step(%x: tensor<64x4096xbf16> {dpc.role = "input", dpc.name = "x"},
                %s: tensor<2x2x64x256xf32> {dpc.role = "input", dpc.name = "s"},
                %ids: tensor<512xi64> {dpc.role = "input", dpc.name = "ids"},
                %dy: tensor<512x64xf32> {dpc.role = "input", dpc.name = "dy"})
    -> (tensor<64x4096xbf16> {dpc.name = "y"}, tensor<2x2x64xf32> {dpc.name = "lse"}, tensor<100x64xf32> {dpc.name = "dt"}, tensor<4096xbf16> {dpc.name = "c"}, tensor<f32> {dpc.name = "q"}) {
  %y = dpc.softmax %x : tensor<64x4096xbf16> -> tensor<64x4096xbf16>
  %p, %lse = dpc.attention_probs %s scale = 0.5 causal : (tensor<2x2x64x256xf32>) -> (tensor<2x2x64x256xf32>, tensor<2x2x64xf32>)
  %dt = dpc.embedding_grad %ids, %dy : (tensor<512xi64>, tensor<512x64xf32>) -> tensor<100x64xf32>
  %c = dpc.reduce sum %x dims = [0] : tensor<64x4096xbf16> -> tensor<4096xbf16>
  %q = dpc.sum_squares %dy : (tensor<512x64xf32>) -> tensor<f32>
  return %y, %lse, %dt, %c, %q : tensor<64x4096xbf16>, tensor<2x2x64xf32>, tensor<100x64xf32>, tensor<4096xbf16>, tensor<f32>
})",
                          "sm_80");
  EXPECT_GT(countOf(ptx, "shfl.sync.bfly"), 0u);
  EXPECT_GT(countOf(ptx, "bar.sync"), 0u);
  EXPECT_GT(countOf(ptx, "ld.global.v4.b32"), 0u);
  EXPECT_EQ(countOf(ptx, "atom."), 0u);
  EXPECT_EQ(countOf(ptx, "call"), 0u);
}

} // namespace
