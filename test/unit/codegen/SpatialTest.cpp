//===- SpatialTest.cpp - Convolutions and pools in a step -----------------===//
#include "test/unit/codegen/StepHarness.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

using namespace dpc::test;

namespace {

// The values are small integers, so a window often has several equal maxima.
// The first one counts.
TEST(Spatial, MaxPoolAndItsGradient) {
  Step step(R"(
func.func @step(%x: tensor<2x3x5x7xf32> {dpc.role = "input", dpc.name = "x"},
                %g: tensor<2x3x3x6xf32> {dpc.role = "input", dpc.name = "g"})
    -> (tensor<2x3x3x6xf32> {dpc.name = "y"}, tensor<2x3x3x6xi32> {dpc.name = "i"}, tensor<2x3x5x7xf32> {dpc.name = "dx"}) {
  %y, %i = dpc.max_pool %x kernel = [3, 2] strides = [2, 1] pads = [1, 0, 1, 1] dilations = [1, 2] : tensor<2x3x5x7xf32> -> (tensor<2x3x3x6xf32>, tensor<2x3x3x6xi32>)
  %dx = dpc.max_pool_grad %g, %i kernel = [3, 2] strides = [2, 1] pads = [1, 0, 1, 1] dilations = [1, 2] : (tensor<2x3x3x6xf32>, tensor<2x3x3x6xi32>) -> tensor<2x3x5x7xf32>
  return %y, %i, %dx : tensor<2x3x3x6xf32>, tensor<2x3x3x6xi32>, tensor<2x3x5x7xf32>
})");
  Array x = randomArray(210, 1), g = randomArray(108, 2);
  for (double &value : x)
    value = std::round(value);
  for (int i = 0; i < 35; ++i) // a window with only -inf also has a maximum
    x[70 + i] = -std::numeric_limits<double>::infinity();
  step.run({{"x", x}, {"g", g}});
  Array y(108), index(108), dx(210);
  for (int plane = 0; plane < 6; ++plane)
    for (int r = 0; r < 3; ++r)
      for (int c = 0; c < 6; ++c) {
        int best = -1;
        for (int i = 2 * r - 1; i < 2 * r + 2; ++i)
          for (int j = c; j < c + 4; j += 2)
            if (i >= 0 && i < 5 && j < 7 &&
                (best < 0 || x[plane * 35 + i * 7 + j] > x[plane * 35 + best]))
              best = i * 7 + j;
        int at = plane * 18 + r * 6 + c;
        y[at] = x[plane * 35 + best];
        index[at] = best;
        dx[plane * 35 + best] += g[at];
      }
  EXPECT_EQ(step.get("y"), y);
  EXPECT_EQ(step.get("i"), index);
  expectClose(step.get("dx"), dx);
}

// Convolutions read reshapes of dense operands in place.
TEST(Spatial, ConvolutionsAreInstructionsOverDenseOperands) {
  Step step(R"(
func.func @step(%x: tensor<2x15xf32> {dpc.role = "input", dpc.name = "x"},
                %w: tensor<24xf32> {dpc.role = "parameter", dpc.name = "w"})
    -> (tensor<2x4x2xf32> {dpc.name = "y"}, tensor<2x3x5xf32> {dpc.name = "dx"}, tensor<4x3x2xf32> {dpc.name = "dw"}) {
  %a = dpc.reshape %x : tensor<2x15xf32> -> tensor<2x3x5xf32>
  %b = dpc.reshape %w : tensor<24xf32> -> tensor<4x3x2xf32>
  %y = dpc.conv %a, %b strides = [3] pads = [1, 0] dilations = [2] : (tensor<2x3x5xf32>, tensor<4x3x2xf32>) -> tensor<2x4x2xf32>
  %dx = dpc.conv_grad_input %y, %b strides = [3] pads = [1, 0] dilations = [2] : (tensor<2x4x2xf32>, tensor<4x3x2xf32>) -> tensor<2x3x5xf32>
  %dw = dpc.conv_grad_filter %y, %a strides = [3] pads = [1, 0] dilations = [2] : (tensor<2x4x2xf32>, tensor<2x3x5xf32>) -> tensor<4x3x2xf32>
  return %y, %dx, %dw : tensor<2x4x2xf32>, tensor<2x3x5xf32>, tensor<4x3x2xf32>
})");
  ASSERT_EQ(step.error, "");
  EXPECT_EQ(step.plan.kernelFile, "") << "nothing should be copied";
  Array x = randomArray(30, 1), w = randomArray(24, 2);
  step.run({{"x", x}, {"w", w}});
  Array y(16), dx(30), dw(24);
  auto each = [&](auto body) {
    for (int n = 0; n < 2; ++n)
      for (int k = 0; k < 4; ++k)
        for (int o = 0; o < 2; ++o)
          for (int c = 0; c < 3; ++c)
            for (int j = 0; j < 2; ++j)
              if (int i = 3 * o - 1 + 2 * j; i >= 0 && i < 5)
                body(n * 15 + c * 5 + i, k * 6 + c * 2 + j, n * 8 + k * 2 + o);
  };
  each([&](int a, int b, int c) { y[c] += x[a] * w[b]; });
  each([&](int a, int b, int c) {
    dx[a] += y[c] * w[b];
    dw[b] += y[c] * x[a];
  });
  expectClose(step.get("y"), y);
  step.expect({{"dx", dx}, {"dw", dw}}, 1e-5);
  const auto &forward = step.plan.phases["forward"];
  ASSERT_EQ(forward.size(), 4u); // load, three convolutions
  EXPECT_EQ(std::get<dpc::rt::ConvOp>(forward[3].op).kind,
            dpc::rt::ConvKind::GradFilter);
  EXPECT_EQ(forward[1].flops, 2.0 * 16 * 6);
}

} // namespace
