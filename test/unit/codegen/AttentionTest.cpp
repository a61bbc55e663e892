//===- AttentionTest.cpp - Attention as one instruction -------------------===//
#include "test/unit/codegen/StepHarness.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace dpc::test;

namespace {

constexpr int kBatch = 2, kHeads = 4, kGroups = 2, kLength = 6, kDepth = 8;
constexpr int kAll = kHeads + 2 * kGroups;

/// Returns a step in which q, k and v are slices of %x. The shape of %x is [2,
/// 6, 64], and that of %y, %dy and %dq is [2, 6, 32].
std::string attention(const std::string &type) {
  std::string text = R"(
func.func @step(%x: tensor<2x6x64xT> {dpc.role = "input", dpc.name = "x"},
                %dy: tensor<2x6x32xT> {dpc.role = "input", dpc.name = "dy"})
    -> (tensor<2x6x32xT> {dpc.name = "y"}, tensor<2x4x6xf32> {dpc.name = "lse"},
        tensor<2x6x32xT> {dpc.name = "dq"}, tensor<2x2x6x8xT> {dpc.name = "dk"},
        tensor<2x2x6x8xT> {dpc.name = "dv"}) {
  %q0 = dpc.slice %x offsets = [0, 0, 0] strides = [1, 1, 1] {dpc.view} : tensor<2x6x64xT> -> tensor<2x6x32xT>
  %k0 = dpc.slice %x offsets = [0, 0, 32] strides = [1, 1, 1] {dpc.view} : tensor<2x6x64xT> -> tensor<2x6x16xT>
  %v0 = dpc.slice %x offsets = [0, 0, 48] strides = [1, 1, 1] {dpc.view} : tensor<2x6x64xT> -> tensor<2x6x16xT>
  %q1 = dpc.reshape %q0 : tensor<2x6x32xT> -> tensor<2x6x4x8xT>
  %k1 = dpc.reshape %k0 : tensor<2x6x16xT> -> tensor<2x6x2x8xT>
  %v1 = dpc.reshape %v0 : tensor<2x6x16xT> -> tensor<2x6x2x8xT>
  %q = dpc.transpose %q1 perm = [0, 2, 1, 3] {dpc.view} : tensor<2x6x4x8xT> -> tensor<2x4x6x8xT>
  %k = dpc.transpose %k1 perm = [0, 2, 1, 3] {dpc.view} : tensor<2x6x2x8xT> -> tensor<2x2x6x8xT>
  %v = dpc.transpose %v1 perm = [0, 2, 1, 3] {dpc.view} : tensor<2x6x2x8xT> -> tensor<2x2x6x8xT>
  %o, %lse = dpc.attention %q, %k, %v scale = 0.4 causal {dpc.out_perms = [array<i64: 0, 2, 1, 3>, array<i64>]} : (tensor<2x4x6x8xT>, tensor<2x2x6x8xT>, tensor<2x2x6x8xT>) -> (tensor<2x4x6x8xT>, tensor<2x4x6xf32>)
  %o1 = dpc.transpose %o perm = [0, 2, 1, 3] {dpc.view} : tensor<2x4x6x8xT> -> tensor<2x6x4x8xT>
  %y = dpc.reshape %o1 : tensor<2x6x4x8xT> -> tensor<2x6x32xT>
  %do1 = dpc.reshape %dy : tensor<2x6x32xT> -> tensor<2x6x4x8xT>
  %do = dpc.transpose %do1 perm = [0, 2, 1, 3] {dpc.view} : tensor<2x6x4x8xT> -> tensor<2x4x6x8xT>
  %dq0, %dk, %dv = dpc.attention_grad %q, %k, %v, %o, %lse, %do scale = 0.4 causal {dpc.out_perms = [array<i64: 0, 2, 1, 3>, array<i64>, array<i64>]} : (tensor<2x4x6x8xT>, tensor<2x2x6x8xT>, tensor<2x2x6x8xT>, tensor<2x4x6x8xT>, tensor<2x4x6xf32>, tensor<2x4x6x8xT>) -> (tensor<2x4x6x8xT>, tensor<2x2x6x8xT>, tensor<2x2x6x8xT>)
  %dq1 = dpc.transpose %dq0 perm = [0, 2, 1, 3] {dpc.view} : tensor<2x4x6x8xT> -> tensor<2x6x4x8xT>
  %dq = dpc.reshape %dq1 : tensor<2x6x4x8xT> -> tensor<2x6x32xT>
  return %y, %lse, %dq, %dk, %dv : tensor<2x6x32xT>, tensor<2x4x6xf32>, tensor<2x6x32xT>, tensor<2x2x6x8xT>, tensor<2x2x6x8xT>
})";
  for (size_t at = 0; (at = text.find("xT>", at)) != std::string::npos;)
    text.replace(at + 1, 1, type);
  return text;
}

/// Returns an element of head `head` of `x`, whose heads are those of q, then
/// those of k, then those of v.
double partOf(const Array &x, int b, int head, int t, int d) {
  return x[((b * kLength + t) * kAll + head) * kDepth + d];
}

struct Expected {
  Array y = Array(kBatch * kLength * kHeads * kDepth), dq = y,
        lse = Array(kBatch * kHeads * kLength),
        dk = Array(kBatch * kGroups * kLength * kDepth), dv = dk;
};

void addRow(const Array &x, const Array &dy, int b, int h, int t,
            Expected &all) {
  int g = h / (kHeads / kGroups);
  Array p(t + 1), dp(t + 1);
  double sum = 0, delta = 0;
  auto row = [&](int d) {
    return ((b * kLength + t) * kHeads + h) * kDepth + d;
  };
  for (int s = 0; s <= t; ++s) {
    double score = 0;
    for (int d = 0; d < kDepth; ++d) {
      score += partOf(x, b, h, t, d) * partOf(x, b, kHeads + g, s, d);
      dp[s] += dy[row(d)] * partOf(x, b, kHeads + kGroups + g, s, d);
    }
    sum += p[s] = std::exp(0.4 * score);
  }
  for (int s = 0; s <= t; ++s) {
    p[s] /= sum;
    delta += p[s] * dp[s];
  }
  all.lse[(b * kHeads + h) * kLength + t] = std::log(sum);
  for (int s = 0; s <= t; ++s)
    for (int d = 0; d < kDepth; ++d) {
      double ds = 0.4 * p[s] * (dp[s] - delta);
      int key = ((b * kGroups + g) * kLength + s) * kDepth + d;
      all.y[row(d)] += p[s] * partOf(x, b, kHeads + kGroups + g, s, d);
      all.dq[row(d)] += ds * partOf(x, b, kHeads + g, s, d);
      all.dk[key] += ds * partOf(x, b, h, t, d);
      all.dv[key] += p[s] * dy[row(d)];
    }
}

void expectRight(const std::string &type, double tolerance) {
  Step step(attention(type));
  ASSERT_EQ(step.error, "");
  Array x = randomArray(kBatch * kLength * kAll * kDepth, 1, -1, 1),
        dy = randomArray(kBatch * kLength * kHeads * kDepth, 2, -1, 1);
  step.set("x", x);
  step.set("dy", dy);
  x = step.get("x"); // the rounded values
  dy = step.get("dy");
  step.run();
  Expected all;
  for (int b = 0; b < kBatch; ++b)
    for (int h = 0; h < kHeads; ++h)
      for (int t = 0; t < kLength; ++t)
        addRow(x, dy, b, h, t, all);
  step.expect({{"y", all.y},
               {"lse", all.lse},
               {"dq", all.dq},
               {"dk", all.dk},
               {"dv", all.dv}},
              tolerance);
}

/// Attention and its gradient are one instruction each, which reads and writes
/// views without copies.
TEST(Attention, ReadsAndWritesInPlace) {
  Step step(attention("bf16"));
  ASSERT_EQ(step.error, "");
  std::vector<std::string> names;
  for (const auto &[phase, instructions] : step.plan.phases)
    for (const auto &instruction : instructions)
      if (!std::holds_alternative<dpc::rt::LoadInputOp>(instruction.op) &&
          !std::holds_alternative<dpc::rt::StoreOutputOp>(instruction.op))
        names.emplace_back(opName(instruction.op));
  EXPECT_EQ(names, (std::vector<std::string>{"attention", "attention_grad"}));
}

TEST(Attention, MatchesPlainLoops) {
  expectRight("f32", 2e-6);
  expectRight("bf16", 1.0 / 64);
  expectRight("f16", 1.0 / 512);
}

TEST(Attention, MasksAreRefused) {
  Step step(R"(
func.func @step(%q: tensor<1x1x8x8xf32> {dpc.role = "input", dpc.name = "q"},
                %m: tensor<1x1x8x8xf32> {dpc.role = "input", dpc.name = "m"})
    -> (tensor<1x1x8x8xf32> {dpc.name = "y"}) {
  %y, %lse = dpc.attention %q, %q, %q mask %m scale = 1.0 : (tensor<1x1x8x8xf32>, tensor<1x1x8x8xf32>, tensor<1x1x8x8xf32>, tensor<1x1x8x8xf32>) -> (tensor<1x1x8x8xf32>, tensor<1x1x8xf32>)
  return %y : tensor<1x1x8x8xf32>
})");
  expectSays(step.error, "with a mask");
}

} // namespace
