//===- EpilogueTest.cpp - Kernels that become epilogues of GEMMs ----------===//
//
// Plans for GPUs fuse kernels into GEMMs as epilogues. Plans for CPUs keep
// separate kernels and give the same numbers.
//
//===----------------------------------------------------------------------===//
#include "test/unit/codegen/StepHarness.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace dpc::test;
using Epilogues = std::vector<std::string>;

namespace {

constexpr int kRows = 6, kIn = 5, kOut = 8;

/// EXPECTs the epilogues of all GEMMs, and `kernels` remaining kernels.
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

/// Returns a step in which %s = %x %w and %b is a broadcast bias of `out`
/// elements. `body` computes %y, and with `keeps` also %p.
std::string forward(const std::string &body, bool keeps = false, int out = 8) {
  std::string n = std::to_string(out), wide = "tensor<2x3x" + n + "xf32>";
  return substitute(
      R"(
func.func @step(${x}, ${w}, ${v}) -> (${T} {dpc.name = "y"}${result}) {
  %b = dpc.broadcast %v dims = [2] {dpc.view} : tensor<${N}xf32> -> ${T}
  %s = dpc.matmul %x, %w tb : (tensor<2x3x5xf32>, tensor<${N}x5xf32>) -> ${T}
${body}  return %y${p} : ${T}${pType}
})",
      {{"x", argument("x", "2x3x5xf32")},
       {"w", argument("w", n + "x5xf32")},
       {"v", argument("v", n + "xf32")},
       {"result", keeps ? ", " + wide + " {dpc.name = \"p\"}" : ""},
       {"p", keeps ? ", %p" : ""},
       {"pType", keeps ? ", " + wide : ""},
       {"N", n},
       {"T", wide},
       {"body", body}});
}

std::string biasAnd(const std::string &kind, bool keeps, int out = 8) {
  std::string t = "tensor<2x3x" + std::to_string(out) + "xf32>";
  return substitute(
      R"(  ${p}%y = dpc.kernel %b, %s : (${T}, ${T}) -> (${both}) {
  ^bb0(%i: ${T}, %j: ${T}):
    %k = dpc.binary add %i, %j : (${T}, ${T}) -> ${T}
    %l = dpc.unary ${kind} %k : ${T} -> ${T}
    dpc.yield ${k}%l : ${both}
  }
)",
      {{"p", keeps ? "%p, " : ""},
       {"k", keeps ? "%k, " : ""},
       {"both", keeps ? t + ", " + t : t},
       {"kind", kind},
       {"T", t}});
}

/// Runs the step and compares it with activation(x w' + v).
template <typename F>
void expectForward(Step &step, bool keeps, F &&activation, int out = 8) {
  Array x = randomArray(kRows * kIn, 1), w = randomArray(out * kIn, 2),
        v = randomArray(out, 3), y(kRows * out), p(kRows * out);
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < out; ++j) {
      double &sum = p[i * out + j] = v[j];
      for (int k = 0; k < kIn; ++k)
        sum += x[i * kIn + k] * w[j * kIn + k];
      y[i * out + j] = activation(sum);
    }
  step.run({{"x", x}, {"w", w}, {"v", v}});
  expectClose(step.get("y"), y, 1e-5);
  if (keeps)
    expectClose(step.get("p"), p, 1e-5);
}

TEST(Epilogue, GeluOfABiasedGemm) {
  Step step(forward(biasAnd("gelu_tanh", false)));
  expectForward(step, false, gelu);
  expectEpilogues(step, {"gelu_bias"}, 0);
}

TEST(Epilogue, StoresTheArgumentOfGelu) {
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

// The erf form of gelu is a different function. Rows of 7 stored elements are
// not aligned.
TEST(Epilogue, OtherActivationsAndShapesAreNotFused) {
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

// A bias has one element per column; the vector in this test has one element
// per row.
TEST(Epilogue, VectorsAlongRowsAreNotFused) {
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
  step.run({{"x", x}, {"w", w}, {"v", v}});
  expectClose(step.get("y"), y, 1e-5);
}

// A GEMM result that other ops read must be in memory. Only an epilogue that
// stores this result can be fused.
TEST(Epilogue, ResultsWithOtherReadersAreStored) {
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
  plain.run({{"x", randomArray(30, 1)}, {"w", randomArray(40, 2)}});
  Array y = plain.get("p");
  for (double &value : y)
    value = gelu(-value);
  expectClose(plain.get("y"), y, 1e-5);
}

/// Returns a step that computes dx = (dy w) gelu'(x) in `type` and the sum of
/// the rows of dx. For types narrower than f32, the sum reads a copy in f32.
std::string backward(const std::string &type) {
  const char *text = type == "f32" ? R"(
func.func @step(${dy}, ${w}, ${x}) -> (tensor<6x8xT> {dpc.name = "dx"}, tensor<8xT> {dpc.name = "db"}) {
  %s = dpc.matmul %dy, %w : (tensor<6x5xT>, tensor<5x8xT>) -> tensor<6x8xT>
  %dx = dpc.kernel %x, %s : (tensor<6x8xT>, tensor<6x8xT>) -> (tensor<6x8xT>) {
  ^bb0(%i: tensor<6x8xT>, %j: tensor<6x8xT>):
    %k = dpc.unary gelu_tanh_grad %i : tensor<6x8xT> -> tensor<6x8xT>
    %l = dpc.binary mul %j, %k : (tensor<6x8xT>, tensor<6x8xT>) -> tensor<6x8xT>
    dpc.yield %l : tensor<6x8xT>
  }
  %r = dpc.reduce sum %dx dims = [0] : tensor<6x8xT> -> tensor<8xT>
  return %dx, %r : tensor<6x8xT>, tensor<8xT>
})"
                                   : R"(
func.func @step(${dy}, ${w}, ${x}) -> (tensor<6x8xT> {dpc.name = "dx"}, tensor<8xT> {dpc.name = "db"}) {
  %s = dpc.matmul %dy, %w : (tensor<6x5xT>, tensor<5x8xT>) -> tensor<6x8xT>
  %dx, %wide = dpc.kernel %x, %s : (tensor<6x8xT>, tensor<6x8xT>) -> (tensor<6x8xT>, tensor<6x8xf32>) {
  ^bb0(%i: tensor<6x8xT>, %j: tensor<6x8xT>):
    %k = dpc.unary gelu_tanh_grad %i : tensor<6x8xT> -> tensor<6x8xT>
    %l = dpc.binary mul %j, %k : (tensor<6x8xT>, tensor<6x8xT>) -> tensor<6x8xT>
    %c = dpc.convert %l : tensor<6x8xT> -> tensor<6x8xf32>
    dpc.yield %l, %c : tensor<6x8xT>, tensor<6x8xf32>
  }
  %q = dpc.reduce sum %wide dims = [0] : tensor<6x8xf32> -> tensor<8xf32>
  %r = dpc.convert %q : tensor<8xf32> -> tensor<8xT>
  return %dx, %r : tensor<6x8xT>, tensor<8xT>
})";
  return replaceAll(substitute(text, {{"dy", argument("dy", "6x5xT")},
                                      {"w", argument("w", "5x8xT")},
                                      {"x", argument("x", "6x8xT")}}),
                    "xT", "x" + type);
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
    step.expect({{"dx", dx}, {"db", db}}, tolerance);
    expectEpilogues(step, {"gelu_grad_bias"}, 0);
  }
}

/// Returns a step that computes dw = a' c and the sum of the rows of `summed`,
/// which is a or c. `between` is the code between the sum and the GEMM.
std::string weights(const std::string &summed, const std::string &between) {
  bool isA = summed == "a";
  return substitute(R"(
func.func @step(${a}, ${c}) -> (tensor<8x5xf32> {dpc.name = "dw"}, ${V} {dpc.name = "db"}) {
  %a2 = dpc.reshape %a : tensor<2x3x8xf32> -> tensor<6x8xf32>
  %r = dpc.reduce sum ${summed} -> ${V}
${between}  %dw = dpc.matmul %a2, %c ta : (tensor<6x8xf32>, tensor<6x5xf32>) -> tensor<8x5xf32>
  return %dw, ${db} : tensor<8x5xf32>, ${V}
})",
                    {{"a", argument("a", "2x3x8xf32")},
                     {"c", argument("c", "6x5xf32")},
                     {"V", isA ? "tensor<8xf32>" : "tensor<5xf32>"},
                     {"summed", isA ? "%a dims = [0, 1] : tensor<2x3x8xf32>"
                                    : "%c dims = [0] : tensor<6x5xf32>"},
                     {"between", between},
                     {"db", between.empty() ? "%r" : "%db"}});
}

TEST(Epilogue, SumsOfAFactor) {
  for (const char *summed : {"a", "c"}) {
    SCOPED_TRACE(summed);
    Step step(weights(summed, ""));
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
    step.run({{"a", a}, {"c", c}});
    step.expect({{"dw", dw}, {"db", db}}, 1e-5);
    expectEpilogues(step, {length == 8 ? "sums_of_a" : "sums_of_b"}, 0);
  }
}

TEST(Epilogue, SumsThatAreReadBeforeTheGemmAreNotFused) {
  Step step(weights(
      "a", "  %db = dpc.unary neg %r : tensor<8xf32> -> tensor<8xf32>\n"));
  ASSERT_EQ(step.error, "");
  expectEpilogues(step, {"none"}, 2);
  Array a = randomArray(48, 1), db(8);
  for (int i = 0; i < 48; ++i)
    db[i % 8] -= a[i];
  step.run({{"a", a}, {"c", randomArray(30, 2)}});
  expectClose(step.get("db"), db, 1e-5);
}

// Views between a GEMM and its epilogue do not prevent fusion. They occur if a
// step gathers or scatters shards.
TEST(Epilogue, ViewsMayStandBetween) {
  Step sums(weights("a", "  %r2 = dpc.reshape %r : tensor<8xf32> -> "
                         "tensor<4x2xf32>\n  %db = dpc.reshape %r2 : "
                         "tensor<4x2xf32> -> tensor<8xf32>\n"));
  ASSERT_EQ(sums.error, "");
  expectEpilogues(sums, {"sums_of_a"}, 0);
  Array a = randomArray(48, 1), db(8);
  for (int i = 0; i < 48; ++i)
    db[i % 8] += a[i];
  sums.run({{"a", a}, {"c", randomArray(30, 2)}});
  expectClose(sums.get("db"), db, 1e-5);

  Step added(weights("a", "  %db = dpc.accumulate sum %r : tensor<8xf32> -> "
                          "tensor<8xf32>\n"));
  ASSERT_EQ(added.error, "");
  expectEpilogues(added, {"sums_of_a"}, 1);
  added.run({{"a", a}, {"c", randomArray(30, 2)}});
  expectClose(added.get("db"), db, 1e-5);

  // Micro-batches of bf16 are accumulated in f32.
  Step wide(substitute(
      R"(
func.func @step(${a}, ${c}) -> (tensor<8x5xbf16> {dpc.name = "dw"}, tensor<8xf32> {dpc.name = "db"}) {
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
})",
      {{"a", argument("a", "6x8xbf16")}, {"c", argument("c", "6x5xbf16")}}));
  ASSERT_EQ(wide.error, "");
  expectEpilogues(wide, {"sums_of_a"}, 2);
  wide.run({{"a", a}, {"c", randomArray(30, 2)}});
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

// The GEMM accumulates over micro-batches in f32, in the buffer of the
// accumulated gradient. The GEMM also sums the rows of %a, and a separate
// kernel accumulates these sums in f32.
TEST(Epilogue, GemmsAccumulateMicroBatches) {
  for (const char *type : {"f32", "bf16"}) {
    SCOPED_TRACE(type);
    bool isWide = type == std::string("f32");
    auto input = [&](const std::string &name) {
      return argument(name, "2x8xT", "input",
                      ", dpc.global = tensor<6x8xT, #dpc.sharding<"
                      "#dpc.mesh<mb=3>, [{mb}, {} ]>>");
    };
    const char *code = R"(
func.func @step(${a}, ${c}) -> (tensor<8x8xf32> {dpc.name = "dw"}, tensor<8xf32> {dpc.name = "db"}) attributes {dpc.mesh = #dpc.mesh<mb=3>} {
  %r = dpc.kernel %a {dpc.phase = "backward"} : (tensor<2x8xT>) -> tensor<8xf32> {
  ^bb0(%i: tensor<2x8xT>):
    ${wide}
    dpc.yield %k : tensor<8xf32>
  }
  %db = dpc.accumulate sum %r {dpc.phase = "backward"} : tensor<8xf32> -> tensor<8xf32>
  %p = dpc.matmul %a, %c ta {dpc.phase = "backward"} : (tensor<2x8xT>, tensor<2x8xT>) -> tensor<8x8xT>
  ${dw}
  return %dw, %db : tensor<8x8xf32>, tensor<8xf32>
})";
    std::string text = replaceAll(
        substitute(
            code,
            {{"a", input("a")},
             {"c", input("c")},
             {"wide",
              isWide
                  ? R"(%k = dpc.reduce sum %i dims = [0] : tensor<2x8xT> -> tensor<8xf32>)"
                  : R"(%j = dpc.convert %i : tensor<2x8xT> -> tensor<2x8xf32>
    %k = dpc.reduce sum %j dims = [0] : tensor<2x8xf32> -> tensor<8xf32>)"},
             {"dw",
              isWide
                  ? R"(%dw = dpc.accumulate sum %p {dpc.phase = "backward"} : tensor<8x8xf32> -> tensor<8x8xf32>)"
                  : R"(%w = dpc.convert %p {dpc.phase = "backward"} : tensor<8x8xT> -> tensor<8x8xf32>
  %dw = dpc.accumulate sum %w {dpc.phase = "backward"} : tensor<8x8xf32> -> tensor<8x8xf32>)"}}),
        "xT", std::string("x") + type);
    Step step(text);
    ASSERT_EQ(step.error, "") << text;
    expectEpilogues(step, {"sums_of_a"}, 1);
    step.set("a", randomArray(16, 1));
    step.set("c", randomArray(16, 2));
    Array from = step.get("a"), with = step.get("c"), sums(8), product(64);
    for (int k = 0; k < 2; ++k)
      for (int i = 0; i < 8; ++i) {
        sums[i] +=
            3 * from[k * 8 + i]; // all micro-batches have the same values
        for (int j = 0; j < 8; ++j)
          product[i * 8 + j] += 3 * from[k * 8 + i] * with[k * 8 + j];
      }
    step.run();
    double tolerance = isWide ? 1e-5 : 0.02;
    step.expect({{"dw", product}, {"db", sums}}, tolerance);
#ifdef DPC_TEST_GPU_EMULATION
    expectClose(step.get("dw"), product, 1e-5); // nothing is rounded to bf16
#endif
  }
}

// A GEMM call cannot sum the rows of a slice of a transposed tensor.
TEST(Epilogue, SumsOfAStridedFactorAreNotFused) {
  Step step(substitute(
      R"(
func.func @step(${a}, ${c}) -> (tensor<8x5xf32> {dpc.name = "dw"}, tensor<8xf32> {dpc.name = "db"}) {
  %t = dpc.transpose %a perm = [1, 2, 0] {dpc.view} : tensor<8x2x6xf32> -> tensor<2x6x8xf32>
  %s = dpc.slice %t offsets = [1, 0, 0] strides = [1, 1, 1] {dpc.view} : tensor<2x6x8xf32> -> tensor<1x6x8xf32>
  %f = dpc.reshape %s : tensor<1x6x8xf32> -> tensor<6x8xf32>
  %r = dpc.reduce sum %s dims = [0, 1] : tensor<1x6x8xf32> -> tensor<8xf32>
  %dw = dpc.matmul %f, %c ta : (tensor<6x8xf32>, tensor<6x5xf32>) -> tensor<8x5xf32>
  return %dw, %r : tensor<8x5xf32>, tensor<8xf32>
})",
      {{"a", argument("a", "8x2x6xf32")}, {"c", argument("c", "6x5xf32")}}));
  ASSERT_EQ(step.error, "");
  expectEpilogues(step, {"none"}, 1);
  Array a = randomArray(96, 1), db(8);
  for (int i = 0; i < 8; ++i)
    for (int k = 0; k < 6; ++k)
      db[i] += a[i * 12 + 6 + k];
  step.run({{"a", a}, {"c", randomArray(30, 2)}});
  expectClose(step.get("db"), db, 1e-5);
}

// A GEMM call cannot sum the rows of a factor that is stored transposed. The
// GEMM still accumulates over micro-batches.
TEST(Epilogue, SumsOfATransposedFactorAreNotFused) {
  Step step(R"(
func.func @step(%a: tensor<8x2xf32> {dpc.role = "input", dpc.name = "a", dpc.global = tensor<8x6xf32, #dpc.sharding<#dpc.mesh<mb=3>, [{}, {mb}]>>},
                %c: tensor<2x8xf32> {dpc.role = "input", dpc.name = "c", dpc.global = tensor<6x8xf32, #dpc.sharding<#dpc.mesh<mb=3>, [{mb}, {}]>>})
    -> (tensor<8x8xf32> {dpc.name = "dw"}, tensor<8xf32> {dpc.name = "db"}) attributes {dpc.mesh = #dpc.mesh<mb=3>} {
  %t = dpc.transpose %a perm = [1, 0] {dpc.view, dpc.phase = "backward"} : tensor<8x2xf32> -> tensor<2x8xf32>
  %r = dpc.reduce sum %t dims = [0] {dpc.phase = "backward"} : tensor<2x8xf32> -> tensor<8xf32>
  %db = dpc.accumulate sum %r {dpc.phase = "backward"} : tensor<8xf32> -> tensor<8xf32>
  %p = dpc.matmul %t, %c ta {dpc.phase = "backward"} : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<8x8xf32>
  %dw = dpc.accumulate sum %p {dpc.phase = "backward"} : tensor<8x8xf32> -> tensor<8x8xf32>
  return %dw, %db : tensor<8x8xf32>, tensor<8xf32>
})");
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
  step.run({{"a", a}, {"c", c}});
  step.expect({{"dw", dw}, {"db", db}}, 1e-5);
}

// No single call computes the batched GEMM of the kernel. The ops of the kernel
// are lowered separately, and another kernel sums over micro-batches.
TEST(Epilogue, BatchesOfGemmsAreLoweredSeparately) {
  Step step(R"(
func.func @step(%x: tensor<2x4x5xf32> {dpc.role = "input", dpc.name = "x", dpc.global = tensor<2x12x5xf32, #dpc.sharding<#dpc.mesh<mb=3>, [{}, {mb}, {}]>>},
                %w: tensor<2x5x8xf32> {dpc.role = "input", dpc.name = "w"})
    -> (tensor<2x4x8xf32> {dpc.name = "y"}) attributes {dpc.mesh = #dpc.mesh<mb=3>} {
  %s = dpc.kernel %x, %w {dpc.epilogue = "relu", dpc.phase = "forward"} : (tensor<2x4x5xf32>, tensor<2x5x8xf32>) -> tensor<2x4x8xf32> {
  ^bb0(%i: tensor<2x4x5xf32>, %j: tensor<2x5x8xf32>):
    %k = dpc.matmul %i, %j : (tensor<2x4x5xf32>, tensor<2x5x8xf32>) -> tensor<2x4x8xf32>
    %l = dpc.unary relu %k : tensor<2x4x8xf32> -> tensor<2x4x8xf32>
    dpc.yield %l : tensor<2x4x8xf32>
  }
  %y = dpc.accumulate sum %s {dpc.view, dpc.phase = "forward"} : tensor<2x4x8xf32> -> tensor<2x4x8xf32>
  return %y : tensor<2x4x8xf32>
})");
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
  step.run({{"x", x}, {"w", w}});
  expectClose(step.get("y"), y, 1e-5);
}

// A kernel may yield the same f32 value twice, for two sums.
TEST(Epilogue, RepeatedCopiesAreRemoved) {
  Step step(R"(
func.func @step(%x: tensor<6x8xbf16> {dpc.role = "input", dpc.name = "x"})
    -> (tensor<6x8xbf16> {dpc.name = "y"}, tensor<8xf32> {dpc.name = "p"}, tensor<8xf32> {dpc.name = "q"}) {
  %y, %a, %b = dpc.kernel %x : (tensor<6x8xbf16>) -> (tensor<6x8xbf16>, tensor<6x8xf32>, tensor<6x8xf32>) {
  ^bb0(%i: tensor<6x8xbf16>):
    %k = dpc.unary neg %i : tensor<6x8xbf16> -> tensor<6x8xbf16>
    %c = dpc.convert %k : tensor<6x8xbf16> -> tensor<6x8xf32>
    dpc.yield %k, %c, %c : tensor<6x8xbf16>, tensor<6x8xf32>, tensor<6x8xf32>
  }
  %p = dpc.reduce sum %a dims = [0] : tensor<6x8xf32> -> tensor<8xf32>
  %q = dpc.reduce sum %b dims = [0] : tensor<6x8xf32> -> tensor<8xf32>
  return %y, %p, %q : tensor<6x8xbf16>, tensor<8xf32>, tensor<8xf32>
})");
  ASSERT_EQ(step.error, "");
  step.set("x", randomArray(48, 1));
  Array x = step.get("x"), sums(8);
  for (int i = 0; i < 48; ++i)
    sums[i % 8] -= x[i];
  step.run();
  step.expect({{"p", sums}, {"q", sums}}, 1e-5);
}

} // namespace
