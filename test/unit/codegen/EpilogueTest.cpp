//===- EpilogueTest.cpp - Kernels that are a part of a product ------------===//
//
// On GPUs; for CPUs the same numbers come from products and kernels apart.
//
//===----------------------------------------------------------------------===//
#include "test/unit/codegen/StepHarness.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace dpc::test;
using Epilogues = std::vector<std::string>;

namespace {

constexpr int kRows = 6, kIn = 5, kOut = 8;

/// The epilogues of all products, and how many kernels there are.
void expectEpilogues(const Step &step, Epilogues expected,
                     [[maybe_unused]] size_t kernels) {
#ifndef DPC_TEST_GPU_EMULATION
  for (std::string &name : expected)
    name = "none";
#endif
  Epilogues found;
  [[maybe_unused]] size_t count = 0;
  for (const auto &[phase, instructions] : step.plan.phases)
    for (const auto &instruction : instructions) {
      count += std::holds_alternative<dpc::rt::KernelOp>(instruction.op);
      if (auto *op = std::get_if<dpc::rt::MatmulOp>(&instruction.op))
        found.emplace_back(nameOf(op->epilogue));
    }
  EXPECT_EQ(found, expected);
#ifdef DPC_TEST_GPU_EMULATION
  EXPECT_EQ(count, kernels);
#endif
}

double gelu(double x) {
  return x / 2 *
         (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double geluSlope(double x) { return (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5; }

std::string argument(const std::string &name, const std::string &type) {
  return "%" + name + ": tensor<" + type + "> {dpc.role = \"input\", " +
         "dpc.name = \"" + name + "\"}";
}

/// `body` computes %y, and perhaps %p, from %x, %w and %v, which has the
/// elements of `vector`.
std::string forward(const std::string &body, bool keeps = false, int out = 8) {
  std::string n = std::to_string(out), wide = "tensor<2x3x" + n + "xf32>";
  return "func.func @step(" + argument("x", "2x3x5xf32") + ", " +
         argument("w", n + "x5xf32") + ", " + argument("v", n + "xf32") +
         ") -> (" + wide + " {dpc.name = \"y\"}" +
         (keeps ? ", " + wide + " {dpc.name = \"p\"}" : "") +
         ") {\n  %b = dpc.broadcast %v dims = [2] {dpc.view} : tensor<" + n +
         "xf32> -> " + wide +
         "\n  %s = dpc.matmul %x, %w tb : (tensor<2x3x5xf32>, tensor<" + n +
         "x5xf32>) -> " + wide + "\n" + body + "  return %y" +
         (keeps ? ", %p : " + wide : " :") + (keeps ? ", " : " ") + wide +
         "\n}";
}

/// A kernel that adds %b to %s and applies `kind`.
std::string biasAnd(const std::string &kind, bool keeps, int out = 8) {
  std::string t = "tensor<2x3x" + std::to_string(out) + "xf32>";
  std::string both = keeps ? t + ", " + t : t;
  return (keeps ? "  %p, %y = " : "  %y = ") +
         std::string("dpc.kernel %b, %s : (") + t + ", " + t + ") -> (" + both +
         ") {\n  ^bb0(%i: " + t + ", %j: " + t + "):\n" +
         "    %k = dpc.binary add %i, %j : (" + t + ", " + t + ") -> " + t +
         "\n    %l = dpc.unary " + kind + " %k : " + t + " -> " + t +
         "\n    dpc.yield " + (keeps ? "%k, %l" : "%l") + " : " + both +
         "\n  }\n";
}

/// Runs it and compares with activation(x w' + v).
template <typename F>
void expectForward(Step &step, bool keeps, F &&activation, int out = 8) {
  ASSERT_EQ(step.error, "");
  Array x = randomArray(kRows * kIn, 1), w = randomArray(out * kIn, 2),
        v = randomArray(out, 3), y(kRows * out), p(kRows * out);
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < out; ++j) {
      double &sum = p[i * out + j] = v[j];
      for (int k = 0; k < kIn; ++k)
        sum += x[i * kIn + k] * w[j * kIn + k];
      y[i * out + j] = activation(sum);
    }
  step.set("x", x);
  step.set("w", w);
  step.set("v", v);
  step.run();
  expectClose(step.get("y"), y, 1e-5);
  if (keeps)
    expectClose(step.get("p"), p, 1e-5);
}

TEST(Epilogue, GeluOfABiasedProduct) {
  Step step(forward(biasAnd("gelu_tanh", false)));
  expectForward(step, false, gelu);
  expectEpilogues(step, {"gelu_bias"}, 0);
}

TEST(Epilogue, KeepsWhatGeluIsAppliedTo) {
  Step step(forward(biasAnd("gelu_tanh", true), true));
  expectForward(step, true, gelu);
  expectEpilogues(step, {"gelu_aux_bias"}, 0);
}

TEST(Epilogue, Relu) {
  Step step(forward(biasAnd("relu", false)));
  expectForward(step, false, [](double x) { return std::max(x, 0.0); });
  expectEpilogues(step, {"relu_bias"}, 0);
}

TEST(Epilogue, BiasAlone) {
  Step step(forward("  %y = dpc.binary add %s, %b : (tensor<2x3x8xf32>, "
                    "tensor<2x3x8xf32>) -> tensor<2x3x8xf32>\n"));
  expectForward(step, false, [](double x) { return x; });
  expectEpilogues(step, {"bias"}, 0);
}

// The erf form is another function, and rows of 7 elements are not aligned
// where what gelu is applied to is kept.
TEST(Epilogue, OnlyWhatItIs) {
  Step erf(forward(biasAnd("gelu", false)));
  expectForward(erf, false, [](double x) {
    return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
  });
  expectEpilogues(erf, {"none"}, 1);
  Step odd(forward(biasAnd("gelu_tanh", true, 7), true, 7));
  expectForward(odd, true, gelu, 7);
  expectEpilogues(odd, {"none"}, 1);
  Step without(forward(biasAnd("gelu_tanh", false, 7), false, 7));
  expectForward(without, false, gelu, 7);
  expectEpilogues(without, {"gelu_bias"}, 0);
}

// A vector along the rows is no bias.
TEST(Epilogue, ABiasIsTheSameInAllRows) {
  std::string text = forward(biasAnd("relu", false));
  auto replace = [&](const std::string &from, const std::string &to) {
    text.replace(text.find(from), from.size(), to);
  };
  replace(argument("v", "8xf32"), argument("v", "3xf32"));
  replace("dims = [2] {dpc.view} : tensor<8xf32>",
          "dims = [1] {dpc.view} : tensor<3xf32>");
  Step step(text);
  ASSERT_EQ(step.error, "");
  expectEpilogues(step, {"none"}, 1);
  Array x = randomArray(kRows * kIn, 1), w = randomArray(kOut * kIn, 2),
        v = randomArray(3, 3), y(kRows * kOut);
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kOut; ++j) {
      double sum = v[i % 3];
      for (int k = 0; k < kIn; ++k)
        sum += x[i * kIn + k] * w[j * kIn + k];
      y[i * kOut + j] = std::max(sum, 0.0);
    }
  step.set("x", x);
  step.set("w", w);
  step.set("v", v);
  step.run();
  expectClose(step.get("y"), y, 1e-5);
}

// Others read the product: they need it in memory, unless it is just what is
// kept.
TEST(Epilogue, WhatOthersReadIsThere) {
  const std::string other =
      "  %p = dpc.unary neg %s : tensor<2x3x8xf32> -> tensor<2x3x8xf32>\n";
  Step biased(forward(biasAnd("gelu_tanh", false) + other, true));
  expectForward(biased, false, gelu);
  Array p = biased.get("p"), v = randomArray(kOut, 3);
  for (int i = 0; i < kRows * kOut; ++i)
    p[i] = gelu(v[i % kOut] - p[i]);
  expectClose(biased.get("y"), p, 1e-5);
  expectEpilogues(biased, {"none"}, 2);
  Step plain(forward("  %y = dpc.unary gelu_tanh %s : tensor<2x3x8xf32> -> "
                     "tensor<2x3x8xf32>\n" +
                         other,
                     true));
  ASSERT_EQ(plain.error, "");
  expectEpilogues(plain, {"gelu_aux"}, 1);
  plain.set("x", randomArray(30, 1));
  plain.set("w", randomArray(40, 2));
  plain.run();
  Array y = plain.get("p");
  for (double &value : y)
    value = gelu(-value);
  expectClose(plain.get("y"), y, 1e-5);
}

/// dx = (dy w) gelu'(x) and the sum of its rows, in `type`: the sum reads a
/// copy in f32.
std::string backward(const std::string &type) {
  std::string t = "tensor<6x8x" + type + ">", v = "tensor<8x" + type + ">";
  bool isWide = type == "f32";
  std::string rest =
      isWide ? "    dpc.yield %l : " + t + "\n  }\n  %r = dpc.reduce sum %dx " +
                   "dims = [0] : " + t + " -> tensor<8xf32>\n"
             : "    %c = dpc.convert %l : " + t + " -> tensor<6x8xf32>\n" +
                   "    dpc.yield %l, %c : " + t + ", tensor<6x8xf32>\n  }\n" +
                   "  %q = dpc.reduce sum %wide dims = [0] : tensor<6x8xf32> " +
                   "-> tensor<8xf32>\n  %r = dpc.convert %q : tensor<8xf32> " +
                   "-> " + v + "\n";
  return "func.func @step(" + argument("dy", "6x5x" + type) + ", " +
         argument("w", "5x8x" + type) + ", " + argument("x", "6x8x" + type) +
         ") -> (" + t + " {dpc.name = \"dx\"}, " + v +
         " {dpc.name = \"db\"}) {\n  %s = dpc.matmul %dy, %w : (tensor<6x5x" +
         type + ">, tensor<5x8x" + type + ">) -> " + t +
         (isWide ? "\n  %dx = " : "\n  %dx, %wide = ") +
         "dpc.kernel %x, %s : (" + t + ", " + t + ") -> (" + t +
         (isWide ? "" : ", tensor<6x8xf32>") + ") {\n  ^bb0(%i: " + t +
         ", %j: " + t + "):\n    %k = dpc.unary gelu_tanh_grad %i : " + t +
         " -> " + t + "\n    %l = dpc.binary mul %j, %k : (" + t + ", " + t +
         ") -> " + t + "\n" + rest + "  return %dx, %r : " + t + ", " + v +
         "\n}";
}

TEST(Epilogue, GradientOfGeluAndItsSums) {
  for (const char *type : {"f32", "bf16"}) {
    SCOPED_TRACE(type);
    Step step(backward(type));
    ASSERT_EQ(step.error, "");
    step.set("dy", randomArray(kRows * kIn, 1));
    step.set("w", randomArray(kIn * kOut, 2));
    step.set("x", randomArray(kRows * kOut, 3));
    Array dy = step.get("dy"), w = step.get("w"), x = step.get("x");
    Array dx(kRows * kOut), db(kOut);
    for (int i = 0; i < kRows; ++i)
      for (int j = 0; j < kOut; ++j) {
        double &value = dx[i * kOut + j];
        for (int k = 0; k < kIn; ++k)
          value += dy[i * kIn + k] * w[k * kOut + j];
        value *= geluSlope(x[i * kOut + j]);
        db[j] += value;
      }
    step.run();
    double tolerance = type == std::string("f32") ? 1e-5 : 0.02;
    expectClose(step.get("dx"), dx, tolerance);
    expectClose(step.get("db"), db, tolerance);
    expectEpilogues(step, {"gelu_grad_bias"}, 0);
  }
}

/// dw = a' c and the sum of the rows of one of them; `between` stands between
/// the sum and the product.
std::string weights(const std::string &summed, const std::string &between,
                    const std::string &product = "%a2, %c ta") {
  return "func.func @step(" + argument("a", "2x3x8xf32") + ", " +
         argument("c", "6x5xf32") +
         ") -> (tensor<8x5xf32> {dpc.name = \"dw\"}, tensor<" +
         (summed == "a" ? "8" : "5") + "xf32> {dpc.name = \"db\"}) {\n" +
         "  %a2 = dpc.reshape %a : tensor<2x3x8xf32> -> tensor<6x8xf32>\n" +
         (summed == "a" ? "  %r = dpc.reduce sum %a dims = [0, 1] : "
                          "tensor<2x3x8xf32> -> tensor<8xf32>\n"
                        : "  %r = dpc.reduce sum %c dims = [0] : "
                          "tensor<6x5xf32> -> tensor<5xf32>\n") +
         between + "  %dw = dpc.matmul " + product +
         " : (tensor<6x8xf32>, tensor<6x5xf32>) -> tensor<8x5xf32>\n" +
         "  return %dw, " + (between.empty() ? "%r" : "%db") +
         " : tensor<8x5xf32>, tensor<" + (summed == "a" ? "8" : "5") +
         "xf32>\n}";
}

TEST(Epilogue, SumsOfAFactor) {
  for (const char *summed : {"a", "c"}) {
    SCOPED_TRACE(summed);
    Step step(weights(summed, ""));
    ASSERT_EQ(step.error, "");
    Array a = randomArray(48, 1), c = randomArray(30, 2), dw(40);
    int length = summed[0] == 'a' ? 8 : 5;
    Array db(length);
    for (int i = 0; i < 6; ++i)
      for (int j = 0; j < length; ++j)
        db[j] += (length == 8 ? a : c)[i * length + j];
    for (int i = 0; i < 8; ++i)
      for (int j = 0; j < 5; ++j)
        for (int k = 0; k < 6; ++k)
          dw[i * 5 + j] += a[k * 8 + i] * c[k * 5 + j];
    step.set("a", a);
    step.set("c", c);
    step.run();
    expectClose(step.get("dw"), dw, 1e-5);
    expectClose(step.get("db"), db, 1e-5);
    expectEpilogues(step, {length == 8 ? "sums_of_a" : "sums_of_b"}, 0);
  }
}

TEST(Epilogue, SumsThatAreReadBeforeTheProduct) {
  Step step(weights(
      "a", "  %db = dpc.unary neg %r : tensor<8xf32> -> tensor<8xf32>\n"));
  ASSERT_EQ(step.error, "");
  expectEpilogues(step, {"none"}, 2);
  Array a = randomArray(48, 1), db(8);
  for (int i = 0; i < 48; ++i)
    db[i % 8] -= a[i];
  step.set("a", a);
  step.set("c", randomArray(30, 2));
  step.run();
  expectClose(step.get("db"), db, 1e-5);
}

// As in a step that gathers and scatters: views of the vector stand behind the
// product, views of sums before it.
TEST(Epilogue, ViewsWaitAndAreMade) {
  Step sums(weights("a", "  %r2 = dpc.reshape %r : tensor<8xf32> -> "
                         "tensor<4x2xf32>\n  %db = dpc.reshape %r2 : "
                         "tensor<4x2xf32> -> tensor<8xf32>\n"));
  ASSERT_EQ(sums.error, "");
  expectEpilogues(sums, {"sums_of_a"}, 0);
  Array a = randomArray(48, 1), db(8);
  for (int i = 0; i < 48; ++i)
    db[i % 8] += a[i];
  sums.set("a", a);
  sums.set("c", randomArray(30, 2));
  sums.run();
  expectClose(sums.get("db"), db, 1e-5);

  Step added(weights("a", "  %db = dpc.accumulate sum %r : tensor<8xf32> -> "
                          "tensor<8xf32>\n"));
  ASSERT_EQ(added.error, "");
  expectEpilogues(added, {"sums_of_a"}, 1);
  added.set("a", a);
  added.set("c", randomArray(30, 2));
  added.run();
  expectClose(added.get("db"), db, 1e-5);

  // Micro-batches of bf16 are added up in f32.
  std::string narrow = "func.func @step(" + argument("a", "6x8xbf16") + ", " +
                       argument("c", "6x5xbf16") +
                       ") -> (tensor<8x5xbf16> {dpc.name = \"dw\"}, "
                       "tensor<8xf32> {dpc.name = \"db\"}) {\n" +
                       R"(
  %r = dpc.kernel %a : (tensor<6x8xbf16>) -> tensor<8xf32> {
  ^bb0(%i: tensor<6x8xbf16>):
    %j = dpc.convert %i : tensor<6x8xbf16> -> tensor<6x8xf32>
    %k = dpc.reduce sum %j dims = [0] : tensor<6x8xf32> -> tensor<8xf32>
    dpc.yield %k : tensor<8xf32>
  }
  %s = dpc.kernel %r : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%i: tensor<8xf32>):
    %j = dpc.convert %i : tensor<8xf32> -> tensor<8xbf16>
    %k = dpc.convert %j : tensor<8xbf16> -> tensor<8xf32>
    dpc.yield %k : tensor<8xf32>
  }
  %db = dpc.accumulate sum %s : tensor<8xf32> -> tensor<8xf32>
  %dw = dpc.matmul %a, %c ta : (tensor<6x8xbf16>, tensor<6x5xbf16>) -> tensor<8x5xbf16>
  return %dw, %db : tensor<8x5xbf16>, tensor<8xf32>
})";
  Step wide(narrow);
  ASSERT_EQ(wide.error, "");
  expectEpilogues(wide, {"sums_of_a"}, 2);
  wide.set("a", a);
  wide.set("c", randomArray(30, 2));
  wide.run();
  expectClose(wide.get("db"), db, 0.02);

  std::string text = forward(biasAnd("relu", false));
  size_t view = text.find("  %b = "), end = text.find('\n', view) + 1;
  std::string line = text.substr(view, end - view);
  text.erase(view, end - view);
  text.insert(text.find("  %y = "), line);
  Step biased(text);
  expectForward(biased, false, [](double x) { return std::max(x, 0.0); });
  expectEpilogues(biased, {"relu_bias"}, 0);
}

// A product over micro-batches is added where the sum lies, in f32, and so are
// the sums of its factor, which keep the type that they were computed in.
TEST(Epilogue, MicroBatchesAreAddedByTheProduct) {
  for (const char *type : {"f32", "bf16"}) {
    SCOPED_TRACE(type);
    bool isWide = type == std::string("f32");
    std::string a = std::string("2x8x") + type;
    std::string x = "tensor<" + a + ">",
                dw = "tensor<8x8x" + std::string(type) + ">";
    std::string global = ", dpc.global = tensor<6x8x" + std::string(type) +
                         ", #dpc.sharding<#dpc.mesh<mb=3>, [{mb}, {} ]>>}";
    auto input = [&](const std::string &name) {
      std::string text = argument(name, a);
      return text.replace(text.size() - 1, 1, global);
    };
    std::string text =
        "func.func @step(" + input("a") + ", " + input("c") +
        ") -> (tensor<8x8xf32> {dpc.name = \"dw\"}, tensor<8xf32> "
        "{dpc.name = \"db\"}) attributes {dpc.mesh = #dpc.mesh<mb=3>} {\n"
        "  %r = dpc.kernel %a {dpc.phase = \"backward\"} : (" +
        x + ") -> tensor<8xf32> {\n  ^bb0(%i: " + x + "):\n" +
        (isWide ? "    %k = dpc.reduce sum %i dims = [0] : " + x +
                      " -> tensor<8xf32>\n"
                : "    %j = dpc.convert %i : " + x +
                      " -> tensor<2x8xf32>\n    %k = dpc.reduce sum %j dims = "
                      "[0] : tensor<2x8xf32> -> tensor<8xf32>\n") +
        "    dpc.yield %k : tensor<8xf32>\n  }\n"
        "  %db = dpc.accumulate sum %r {dpc.phase = \"backward\"} : "
        "tensor<8xf32> -> tensor<8xf32>\n"
        "  %p = dpc.matmul %a, %c ta {dpc.phase = \"backward\"} : (" +
        x + ", " + x + ") -> " + dw + "\n" +
        (isWide ? ""
                : "  %w = dpc.convert %p {dpc.phase = \"backward\"} : " + dw +
                      " -> tensor<8x8xf32>\n") +
        "  %dw = dpc.accumulate sum " + (isWide ? "%p" : "%w") +
        " {dpc.phase = \"backward\"} : tensor<8x8xf32> -> tensor<8x8xf32>\n"
        "  return %dw, %db : tensor<8x8xf32>, tensor<8xf32>\n}";
    Step step(text);
    ASSERT_EQ(step.error, "") << text;
    expectEpilogues(step, {"sums_of_a"}, 1);
    step.set("a", randomArray(16, 1));
    step.set("c", randomArray(16, 2));
    Array from = step.get("a"), with = step.get("c"), sums(8), product(64);
    for (int k = 0; k < 2; ++k)
      for (int i = 0; i < 8; ++i) {
        sums[i] += 3 * from[k * 8 + i]; // the harness has one for all
        for (int j = 0; j < 8; ++j)
          product[i * 8 + j] += 3 * from[k * 8 + i] * with[k * 8 + j];
      }
    step.run();
    double tolerance = isWide ? 1e-5 : 0.02;
    expectClose(step.get("dw"), product, tolerance);
    expectClose(step.get("db"), sums, tolerance);
#ifdef DPC_TEST_GPU_EMULATION
    expectClose(step.get("dw"), product, 1e-5); // nothing is rounded to bf16
#endif
  }
}

// The factor is one column of many: no call can sum its rows.
TEST(Epilogue, SumsOfAFactorThatLiesOtherwise) {
  Step step("func.func @step(" + argument("a", "8x2x6xf32") + ", " +
            argument("c", "6x5xf32") +
            ") -> (tensor<8x5xf32> {dpc.name = \"dw\"}, tensor<8xf32> "
            "{dpc.name = \"db\"}) {\n"
            "  %t = dpc.transpose %a perm = [1, 2, 0] {dpc.view} : "
            "tensor<8x2x6xf32> -> tensor<2x6x8xf32>\n"
            "  %s = dpc.slice %t offsets = [1, 0, 0] strides = [1, 1, 1] "
            "{dpc.view} : tensor<2x6x8xf32> -> tensor<1x6x8xf32>\n"
            "  %f = dpc.reshape %s : tensor<1x6x8xf32> -> tensor<6x8xf32>\n"
            "  %r = dpc.reduce sum %s dims = [0, 1] : tensor<1x6x8xf32> -> "
            "tensor<8xf32>\n"
            "  %dw = dpc.matmul %f, %c ta : (tensor<6x8xf32>, "
            "tensor<6x5xf32>) -> tensor<8x5xf32>\n"
            "  return %dw, %r : tensor<8x5xf32>, tensor<8xf32>\n}");
  ASSERT_EQ(step.error, "");
  expectEpilogues(step, {"none"}, 1);
  Array a = randomArray(96, 1), db(8);
  for (int i = 0; i < 8; ++i)
    for (int k = 0; k < 6; ++k)
      db[i] += a[i * 12 + 6 + k];
  step.set("a", a);
  step.set("c", randomArray(30, 2));
  step.run();
  expectClose(step.get("db"), db, 1e-5);
}

// Of a factor that is stored the other way round no call can sum rows; micro-
// batches are added up by the product all the same.
TEST(Epilogue, SumsThatNoCallCanDo) {
  auto input = [](const std::string &name, const std::string &type,
                  const std::string &global) {
    std::string text = argument(name, type);
    return text.replace(text.size() - 1, 1,
                        ", dpc.global = tensor<" + global + ">}");
  };
  const std::string phase = " {dpc.phase = \"backward\"}",
                    mesh = "#dpc.sharding<#dpc.mesh<mb=3>, ";
  Step step("func.func @step(" +
            input("a", "8x2xf32", "8x6xf32, " + mesh + "[{}, {mb}]>") + ", " +
            input("c", "2x8xf32", "6x8xf32, " + mesh + "[{mb}, {}]>") +
            ") -> (tensor<8x8xf32> {dpc.name = \"dw\"}, tensor<8xf32> "
            "{dpc.name = \"db\"}) attributes {dpc.mesh = #dpc.mesh<mb=3>} {\n"
            "  %t = dpc.transpose %a perm = [1, 0] {dpc.view, dpc.phase = "
            "\"backward\"} : tensor<8x2xf32> -> tensor<2x8xf32>\n"
            "  %r = dpc.reduce sum %t dims = [0]" +
            phase +
            " : tensor<2x8xf32> -> tensor<8xf32>\n"
            "  %db = dpc.accumulate sum %r" +
            phase +
            " : tensor<8xf32> -> tensor<8xf32>\n"
            "  %p = dpc.matmul %t, %c ta" +
            phase +
            " : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<8x8xf32>\n"
            "  %dw = dpc.accumulate sum %p" +
            phase +
            " : tensor<8x8xf32> -> tensor<8x8xf32>\n"
            "  return %dw, %db : tensor<8x8xf32>, tensor<8xf32>\n}");
  ASSERT_EQ(step.error, "");
  expectEpilogues(step, {"none"}, 2);
#ifdef DPC_TEST_GPU_EMULATION
  for (const auto &instruction : step.plan.phases.at("backward"))
    if (auto *op = std::get_if<dpc::rt::MatmulOp>(&instruction.op))
      EXPECT_EQ(op->beta, 1);
#endif
  Array a = randomArray(16, 1), c = randomArray(16, 2), dw(64), db(8);
  for (int i = 0; i < 8; ++i)
    for (int k = 0; k < 2; ++k) {
      db[i] += 3 * a[i * 2 + k];
      for (int j = 0; j < 8; ++j)
        dw[i * 8 + j] += 3 * a[i * 2 + k] * c[k * 8 + j];
    }
  step.set("a", a);
  step.set("c", c);
  step.run();
  expectClose(step.get("dw"), dw, 1e-5);
  expectClose(step.get("db"), db, 1e-5);
}

// A kernel that is a product, of many matrices: no call does all of it, so its
// ops are lowered apart, and the sum over micro-batches is one of its own.
TEST(Epilogue, WhatNoCallCanDoIsLoweredApart) {
  auto input = [](const std::string &name, const std::string &local,
                  const std::string &global) {
    std::string text = argument(name, local);
    return text.replace(text.size() - 1, 1,
                        ", dpc.global = tensor<" + global +
                            ", #dpc.sharding<#dpc.mesh<mb=3>, [{}, {mb}, "
                            "{}]>>}");
  };
  const std::string t = "tensor<2x4x8xf32>", phase = "dpc.phase = \"forward\"";
  Step step("func.func @step(" + input("x", "2x4x5xf32", "2x12x5xf32") + ", " +
            argument("w", "2x5x8xf32") + ") -> (" + t +
            " {dpc.name = \"y\"}) attributes {dpc.mesh = #dpc.mesh<mb=3>} {\n"
            "  %s = dpc.kernel %x, %w {dpc.epilogue = \"relu\", " +
            phase + "} : (tensor<2x4x5xf32>, tensor<2x5x8xf32>) -> " + t +
            " {\n  ^bb0(%i: tensor<2x4x5xf32>, %j: tensor<2x5x8xf32>):\n"
            "    %k = dpc.matmul %i, %j : (tensor<2x4x5xf32>, "
            "tensor<2x5x8xf32>) -> " +
            t + "\n    %l = dpc.unary relu %k : " + t + " -> " + t +
            "\n    dpc.yield %l : " + t +
            "\n  }\n  %y = dpc.accumulate sum %s {dpc.view, " + phase +
            "} : " + t + " -> " + t + "\n  return %y : " + t + "\n}");
  ASSERT_EQ(step.error, "");
  expectEpilogues(step, {"none"}, 2);
  Array x = randomArray(40, 1), w = randomArray(80, 2), y(64);
  for (int b = 0; b < 2; ++b)
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 8; ++j) {
        double sum = 0;
        for (int k = 0; k < 5; ++k)
          sum += x[(b * 4 + i) * 5 + k] * w[(b * 5 + k) * 8 + j];
        y[(b * 4 + i) * 8 + j] = 3 * std::max(sum, 0.0);
      }
  step.set("x", x);
  step.set("w", w);
  step.run();
  expectClose(step.get("y"), y, 1e-5);
}

// One value in f32 may be yielded twice, once for each of two sums.
TEST(Epilogue, ACopyThatIsThereTwiceIsGone) {
  const std::string t = "tensor<6x8xbf16>", w = "tensor<6x8xf32>";
  Step step("func.func @step(" + argument("x", "6x8xbf16") + ") -> (" + t +
            " {dpc.name = \"y\"}, tensor<8xf32> {dpc.name = \"p\"}, "
            "tensor<8xf32> {dpc.name = \"q\"}) {\n"
            "  %y, %a, %b = dpc.kernel %x : (" +
            t + ") -> (" + t + ", " + w + ", " + w + ") {\n  ^bb0(%i: " + t +
            "):\n    %k = dpc.unary neg %i : " + t + " -> " + t +
            "\n    %c = dpc.convert %k : " + t + " -> " + w +
            "\n    dpc.yield %k, %c, %c : " + t + ", " + w + ", " + w +
            "\n  }\n  %p = dpc.reduce sum %a dims = [0] : " + w +
            " -> tensor<8xf32>\n  %q = dpc.reduce sum %b dims = [0] : " + w +
            " -> tensor<8xf32>\n  return %y, %p, %q : " + t +
            ", tensor<8xf32>, tensor<8xf32>\n}");
  ASSERT_EQ(step.error, "");
  step.set("x", randomArray(48, 1));
  Array x = step.get("x"), sums(8);
  for (int i = 0; i < 48; ++i)
    sums[i % 8] -= x[i];
  step.run();
  expectClose(step.get("p"), sums, 1e-5);
  expectClose(step.get("q"), sums, 1e-5);
}

} // namespace
