//===- MatmulTest.cpp - GEMMs over views ----------------------------------===//
#include "test/unit/codegen/StepHarness.h"

#include <gtest/gtest.h>

using namespace dpc::test;

namespace {

TEST(Matmul, PlainMatrixIsOneCall) {
  Step step(R"(
func.func @step(%a: tensor<2x3x4xf32> {dpc.role = "input", dpc.name = "a"},
                %b: tensor<5x4xf32> {dpc.role = "parameter", dpc.name = "b"})
    -> (tensor<2x3x5xf32> {dpc.name = "c"}) {
  %c = dpc.matmul %a, %b tb : (tensor<2x3x4xf32>, tensor<5x4xf32>) -> tensor<2x3x5xf32>
  return %c : tensor<2x3x5xf32>
})");
  Array a = randomArray(24, 1), b = randomArray(20, 2), c(30);
  step.run({{"a", a}, {"b", b}});
  for (int i = 0; i < 6; ++i)
    for (int j = 0; j < 5; ++j)
      for (int k = 0; k < 4; ++k)
        c[i * 5 + j] += a[i * 4 + k] * b[j * 4 + k];
  expectClose(step.get("c"), c);
  const auto &forward = step.plan.phases["forward"];
  ASSERT_EQ(forward.size(), 2u); // load, matmul
  const auto &call = std::get<dpc::rt::MatmulOp>(forward[1].op);
  EXPECT_EQ(call.m, 6);
  EXPECT_EQ(call.batch * call.batch2, 1);
}

// q, k and v are column ranges of one buffer. Attention reads them in place,
// head by head, and writes [B, T, H, D].
TEST(Matmul, AttentionReadsFusedProjections) {
  Step step(R"(
func.func @step(%x: tensor<2x3x24xf32> {dpc.role = "input", dpc.name = "x"})
    -> (tensor<2x4x3x3xf32> {dpc.name = "s"}, tensor<2x3x8xf32> {dpc.name = "o"}) {
  %q0 = dpc.slice %x offsets = [0, 0, 0] strides = [1, 1, 1] {dpc.view} : tensor<2x3x24xf32> -> tensor<2x3x8xf32>
  %q1 = dpc.reshape %q0 : tensor<2x3x8xf32> -> tensor<2x3x4x2xf32>
  %q = dpc.transpose %q1 perm = [0, 2, 1, 3] {dpc.view} : tensor<2x3x4x2xf32> -> tensor<2x4x3x2xf32>
  %k0 = dpc.slice %x offsets = [0, 0, 8] strides = [1, 1, 1] {dpc.view} : tensor<2x3x24xf32> -> tensor<2x3x8xf32>
  %k1 = dpc.reshape %k0 : tensor<2x3x8xf32> -> tensor<2x3x4x2xf32>
  %k = dpc.transpose %k1 perm = [0, 2, 3, 1] {dpc.view} : tensor<2x3x4x2xf32> -> tensor<2x4x2x3xf32>
  %v0 = dpc.slice %x offsets = [0, 0, 16] strides = [1, 1, 1] {dpc.view} : tensor<2x3x24xf32> -> tensor<2x3x8xf32>
  %v1 = dpc.reshape %v0 : tensor<2x3x8xf32> -> tensor<2x3x4x2xf32>
  %v = dpc.transpose %v1 perm = [0, 2, 1, 3] {dpc.view} : tensor<2x3x4x2xf32> -> tensor<2x4x3x2xf32>
  %s = dpc.matmul %q, %k : (tensor<2x4x3x2xf32>, tensor<2x4x2x3xf32>) -> tensor<2x4x3x3xf32>
  %o0 = dpc.matmul %s, %v {dpc.out_perm = array<i64: 0, 2, 1, 3>} : (tensor<2x4x3x3xf32>, tensor<2x4x3x2xf32>) -> tensor<2x4x3x2xf32>
  %o1 = dpc.transpose %o0 perm = [0, 2, 1, 3] {dpc.view} : tensor<2x4x3x2xf32> -> tensor<2x3x4x2xf32>
  %o = dpc.reshape %o1 : tensor<2x3x4x2xf32> -> tensor<2x3x8xf32>
  return %s, %o : tensor<2x4x3x3xf32>, tensor<2x3x8xf32>
})");
  ASSERT_EQ(step.error, "");
  EXPECT_EQ(step.plan.kernelFile, "") << "nothing should be copied";
  Array x = randomArray(144, 1), s(72), o(48);
  step.run({{"x", x}});
  auto at = [&](int b, int t, int part, int h, int d) {
    return x[(b * 3 + t) * 24 + part * 8 + h * 2 + d];
  };
  for (int b = 0; b < 2; ++b)
    for (int h = 0; h < 4; ++h)
      for (int t = 0; t < 3; ++t)
        for (int u = 0; u < 3; ++u) {
          double &score = s[((b * 4 + h) * 3 + t) * 3 + u];
          for (int d = 0; d < 2; ++d)
            score += at(b, t, 0, h, d) * at(b, u, 1, h, d);
          for (int d = 0; d < 2; ++d)
            o[(b * 3 + t) * 8 + h * 2 + d] += score * at(b, u, 2, h, d);
        }
  step.expect({{"s", s}, {"o", o}}, 1e-5);
}

TEST(Matmul, TransposedOperands) {
  Step step(R"(
func.func @step(%a: tensor<3x4x2xf32> {dpc.role = "input", dpc.name = "a"},
                %b: tensor<3x5x4xf32> {dpc.role = "input", dpc.name = "b"})
    -> (tensor<3x2x5xf32> {dpc.name = "c"}) {
  %c = dpc.matmul %a, %b ta tb : (tensor<3x4x2xf32>, tensor<3x5x4xf32>) -> tensor<3x2x5xf32>
  return %c : tensor<3x2x5xf32>
})");
  Array a = randomArray(24, 1), b = randomArray(60, 2), c(30);
  step.run({{"a", a}, {"b", b}});
  for (int g = 0; g < 3; ++g)
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 5; ++j)
        for (int k = 0; k < 4; ++k)
          c[(g * 2 + i) * 5 + j] +=
              a[(g * 4 + k) * 2 + i] * b[(g * 5 + j) * 4 + k];
  expectClose(step.get("c"), c);
}

TEST(Matmul, IntegersAreRefused) {
  Step step(R"(
func.func @step(%a: tensor<2x2xi64> {dpc.role = "input", dpc.name = "a"})
    -> (tensor<2x2xi64> {dpc.name = "c"}) {
  %c = dpc.matmul %a, %a : (tensor<2x2xi64>, tensor<2x2xi64>) -> tensor<2x2xi64>
  return %c : tensor<2x2xi64>
})");
  expectSays(step.error, "cannot be executed");
}

} // namespace
