//===- GpuGroupTest.cpp - One launch for the updates of many tensors ------===//
#include "test/unit/codegen/StepHarness.h"

#include <cmath>
#include <gtest/gtest.h>
#include <sstream>

using namespace dpc::test;

namespace {

std::string num(size_t i) { return std::to_string(i); }

/// Returns a step that updates parameters p0, p1, ... by AdamW, one for each
/// shape, such as "3x5x". Gradients are bf16.
std::string adamwOf(const std::vector<std::string> &shapes) {
  std::string arguments, results, types, body, values;
  for (size_t i = 0; i < shapes.size(); ++i) {
    std::string n = num(i), type = shapes[i] + "f32";
    auto state = [&](const char *name, const std::string &slot) {
      return argument(name + n, type, "state",
                      ", dpc.of = \"p" + n + "\", dpc.slot = \"" + slot +
                          "\"") +
             ",\n";
    };
    arguments += argument("p" + n, type, "parameter") + ",\n" +
                 state("m", "exp_avg") + state("v", "exp_avg_sq") +
                 argument("g" + n, shapes[i] + "bf16") + ",\n";
    body += substitute(
        R"(  %q${n}:3 = dpc.adamw %p${n}, %m${n}, %v${n}, %g${n}, %one, %lr, %t beta1 = 9.0e-1 beta2 = 9.5e-1 eps = 1.0e-8 weight_decay = 1.0e-1 {dpc.phase = "update"} : (${T}, ${T}, ${T}, ${G}, tensor<f32>, tensor<f32>, tensor<f32>) -> (${T}, ${T}, ${T})
)",
        {{"n", n},
         {"T", "tensor<" + type + ">"},
         {"G", "tensor<" + shapes[i] + "bf16>"}});
    for (size_t j = 0; j < 3; ++j) {
      std::string comma = i + j == 0 ? "" : ", ";
      results += comma + "tensor<" + type + "> {dpc.name = \"" + "pmv"[j] + n +
                 "\", dpc.ties = " + num(4 * i + j) + " : i64}";
      types += comma + "tensor<" + type + ">";
      values += comma + "%q" + n + "#" + num(j);
    }
  }
  return substitute(R"(
func.func @step(${arguments}
                %lr: tensor<f32> {dpc.role = "scalar", dpc.name = "lr"},
                %t: tensor<f32> {dpc.role = "scalar", dpc.name = "step"})
    -> (${results}) {
  %one = dpc.constant dense<0.5> : tensor<f32> -> tensor<f32>
${body}  return ${values} : ${types}
})",
                    {{"arguments", arguments},
                     {"results", results},
                     {"body", body},
                     {"values", values},
                     {"types", types}});
}

int64_t sizeOf(const std::string &shape) {
  int64_t size = 1;
  std::istringstream in(shape);
  for (std::string dim; std::getline(in, dim, 'x');)
    size *= std::stoll(dim);
  return size;
}

size_t launchesOf(const dpc::rt::Plan &plan, const std::string &phase) {
  size_t launches = 0;
  for (const auto &instruction : plan.phases.at(phase))
    launches += std::holds_alternative<dpc::rt::KernelOp>(instruction.op);
  return launches;
}

void expectUpdates(const std::vector<std::string> &shapes, size_t launches) {
  Step step(adamwOf(shapes));
  ASSERT_EQ(step.error, "");
  EXPECT_EQ(launchesOf(step.plan, "update"), launches);
  std::map<std::string, Array> values;
  for (size_t i = 0; i < shapes.size(); ++i) {
    int64_t size = sizeOf(shapes[i]);
    int seed = static_cast<int>(4 * i);
    step.set("p" + num(i), randomArray(size, seed));
    step.set("m" + num(i), randomArray(size, seed + 1, -0.1, 0.1));
    step.set("v" + num(i), randomArray(size, seed + 2, 0, 0.1));
    step.set("g" + num(i), randomArray(size, seed + 3));
    for (const char *name : {"p", "m", "v", "g"}) // the rounded values
      values[name + num(i)] = step.get(name + num(i));
  }
  step.run({{"lr", {0.01}}, {"step", {3}}});
  for (size_t i = 0; i < shapes.size(); ++i) {
    SCOPED_TRACE(num(i) + ": " + shapes[i]);
    Array &p = values["p" + num(i)], &m = values["m" + num(i)];
    Array &v = values["v" + num(i)];
    adamwReference(p, m, v, values["g" + num(i)]);
    step.expect({{"p" + num(i), p}, {"m" + num(i), m}, {"v" + num(i), v}});
  }
}

// One launch updates tensors that are smaller than a vector, tensors of whole
// chunks, and tensors that end with a partial chunk.
TEST(GpuGroup, UpdatesOfAllShapesAreOneLaunch) {
  expectUpdates({"1x", "4096x", "33x3x", "4097x", "2x6000x", "7x", "8192x",
                 "3x1x5x", "64x129x"},
                1);
}

// A launch has at most 4096 bytes of parameters.
TEST(GpuGroup, ParametersLimitTheSizeOfALaunch) {
  std::vector<std::string> shapes;
  for (int i = 0; i < 150; ++i)
    shapes.push_back(num(1 + i * 37 % 600) + "x");
  expectUpdates(shapes, 3);
}

// Only the first case needs a single launch. In the second case, one kernel
// reads the result of the other; in the third case, the bodies differ.
TEST(GpuGroup, DependentKernelsHaveSeparateLaunches) {
  auto kernel = [](const char *to, const char *from, const char *what) {
    return std::string("  %") + to + " = dpc.unary " + what + " %" + from +
           " {dpc.phase = \"update\"} : tensor<50xf32> -> tensor<50xf32>\n";
  };
  auto text = [](const std::string &body) {
    return "func.func @step(%x: tensor<50xf32> {dpc.role = \"input\", dpc.name "
           "= \"x\"}, %w: tensor<50xf32> {dpc.role = \"input\", dpc.name = "
           "\"w\"}) -> (tensor<50xf32> {dpc.name = \"y\"}, tensor<50xf32> "
           "{dpc.name = \"z\"}) {\n" +
           body + "  return %y, %z : tensor<50xf32>, tensor<50xf32>\n}";
  };
  for (auto [body, launches] :
       {std::pair(kernel("y", "x", "neg") + kernel("z", "w", "neg"), 1),
        std::pair(kernel("y", "x", "neg") + kernel("z", "y", "neg"), 2),
        std::pair(kernel("y", "x", "neg") + kernel("z", "w", "exp"), 2)}) {
    SCOPED_TRACE(body);
    Step step(text(body));
    ASSERT_EQ(step.error, "");
    EXPECT_EQ(launchesOf(step.plan, "update"), size_t(launches));
    Array x = randomArray(50, 1), w = randomArray(50, 2), y = x;
    for (double &value : y)
      value = -value;
    step.run({{"x", x}, {"w", w}});
    expectClose(step.get("y"), y);
  }
}

// The blocks of a launch run in any order, so one launch must not both read and
// write q.
TEST(GpuGroup, ALaunchDoesNotWriteItsOperands) {
  const char *text = R"(
func.func @step(%p: tensor<9xf32> {dpc.role = "parameter", dpc.name = "p"},
                %b: tensor<9xf32> {dpc.role = "state", dpc.name = "b", dpc.of = "p", dpc.slot = "momentum"},
                %q: tensor<9xf32> {dpc.role = "parameter", dpc.name = "q"},
                %c: tensor<9xf32> {dpc.role = "state", dpc.name = "c", dpc.of = "q", dpc.slot = "momentum"},
                %g: tensor<9xf32> {dpc.role = "input", dpc.name = "g"},
                %lr: tensor<f32> {dpc.role = "scalar", dpc.name = "lr"},
                %t: tensor<f32> {dpc.role = "scalar", dpc.name = "step"})
    -> (tensor<9xf32> {dpc.name = "p", dpc.ties = 0 : i64}, tensor<9xf32> {dpc.name = "b", dpc.ties = 1 : i64}, tensor<9xf32> {dpc.name = "q", dpc.ties = 2 : i64}, tensor<9xf32> {dpc.name = "c", dpc.ties = 3 : i64}) {
  %one = dpc.constant dense<1.0> : tensor<f32> -> tensor<f32>
  %p1, %b1 = dpc.sgd %p, %b, ${gradient}, %one, %lr, %t momentum = 5.0e-1 weight_decay = 0.0 {dpc.phase = "update"} : (tensor<9xf32>, tensor<9xf32>, tensor<9xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<9xf32>, tensor<9xf32>)
  %q1, %c1 = dpc.sgd %q, %c, %g, %one, %lr, %t momentum = 5.0e-1 weight_decay = 0.0 {dpc.phase = "update"} : (tensor<9xf32>, tensor<9xf32>, tensor<9xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<9xf32>, tensor<9xf32>)
  return %p1, %b1, %q1, %c1 : tensor<9xf32>, tensor<9xf32>, tensor<9xf32>, tensor<9xf32>
})";
  for (auto [gradient, launches] : {std::pair("%g", 1), std::pair("%q", 2)}) {
    Step step(substitute(text, {{"gradient", gradient}}));
    ASSERT_EQ(step.error, "");
    EXPECT_EQ(launchesOf(step.plan, "update"), size_t(launches)) << gradient;
  }
}

// Accesses move 16 bytes. The code has one copy for all tensors.
TEST(GpuGroup, MovesVectors) {
  for (const char *target : {"sm_80", "sm_90"}) {
    std::vector<std::string> shapes;
    for (int i = 0; i < 60; ++i)
      shapes.push_back(num(768 * (i % 5 + 1)) + "x64x");
    std::string ptx = ptxOf(adamwOf(shapes), target);
    EXPECT_EQ(countOf(ptx, "adamw("), 1u);
    // For eight elements, p, m and v are each two vectors, and g is one vector.
    // The remainder of a tensor is accessed element by element.
    EXPECT_EQ(countOf(ptx, "ld.global.v4.b32"), 7u);
    EXPECT_EQ(countOf(ptx, "st.global.v4.b32"), 6u);
  }
}

} // namespace
