//===- GpuGroupTest.cpp - One launch for the updates of many tensors ------===//
#include "test/unit/codegen/StepHarness.h"

#include <cmath>
#include <gtest/gtest.h>
#include <sstream>

using namespace dpc::test;

namespace {

std::string num(size_t i) { return std::to_string(i); }

/// AdamW of a parameter p0, p1, ... of each shape ("3x5x"), gradients bf16.
std::string adamwOf(const std::vector<std::string> &shapes) {
  std::string arguments, results, types, body, values;
  for (size_t i = 0; i < shapes.size(); ++i) {
    std::string n = num(i), type = "tensor<" + shapes[i] + "f32>";
    auto state = [&](const char *name, const char *slot) {
      return "%" + (name + n) + ": " + type +
             " {dpc.role = \"state\", dpc.name = \"" + name + n +
             "\", dpc.of = \"p" + n + "\", dpc.slot = \"" + slot + "\"},\n";
    };
    arguments += "%p" + n + ": " + type +
                 " {dpc.role = \"parameter\", dpc.name = \"p" + n + "\"},\n" +
                 state("m", "exp_avg") + state("v", "exp_avg_sq") + "%g" + n +
                 ": tensor<" + shapes[i] +
                 "bf16> {dpc.role = \"input\", dpc.name = \"g" + n + "\"},\n";
    body += "  %q" + n + ":3 = dpc.adamw %p" + n + ", %m" + n + ", %v" + n +
            ", %g" + n +
            ", %one, %lr, %t beta1 = 9.0e-1 beta2 = 9.5e-1 eps = 1.0e-8 "
            "weight_decay = 1.0e-1 {dpc.phase = \"update\"} : (" +
            type + ", " + type + ", " + type + ", tensor<" + shapes[i] +
            "bf16>, tensor<f32>, tensor<f32>, tensor<f32>) -> (" + type + ", " +
            type + ", " + type + ")\n";
    for (size_t j = 0; j < 3; ++j) {
      std::string comma = i + j == 0 ? "" : ", ";
      results += comma + type + " {dpc.name = \"" + "pmv"[j] + n +
                 "\", dpc.ties = " + num(4 * i + j) + " : i64}";
      types += comma + type;
      values += comma + "%q" + n + "#" + num(j);
    }
  }
  return "func.func @step(" + arguments +
         "%lr: tensor<f32> {dpc.role = \"scalar\", dpc.name = \"lr\"}, "
         "%t: tensor<f32> {dpc.role = \"scalar\", dpc.name = \"step\"})\n"
         "    -> (" +
         results +
         ") {\n  %one = dpc.constant dense<0.5> : tensor<f32> -> "
         "tensor<f32>\n" +
         body + "  return " + values + " : " + types + "\n}";
}

/// Of "4x8x", as types spell a shape.
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
    for (const char *name : {"p", "m", "v", "g"}) // as they were rounded
      values[name + num(i)] = step.get(name + num(i));
  }
  step.set("lr", {0.01});
  step.set("step", {3});
  step.run();
  for (size_t i = 0; i < shapes.size(); ++i) {
    SCOPED_TRACE(num(i) + ": " + shapes[i]);
    Array &p = values["p" + num(i)], &m = values["m" + num(i)];
    Array &v = values["v" + num(i)];
    adamwReference(p, m, v, values["g" + num(i)]);
    expectClose(step.get("p" + num(i)), p);
    expectClose(step.get("m" + num(i)), m);
    expectClose(step.get("v" + num(i)), v);
  }
}

// Less than a vector, whole chunks and parts of them, in one grid.
TEST(GpuGroup, UpdatesOfAllShapesAreOneLaunch) {
  expectUpdates({"1x", "4096x", "33x3x", "4097x", "2x6000x", "7x", "8192x",
                 "3x1x5x", "64x129x"},
                1);
}

// A launch has 4096 bytes for parameters.
TEST(GpuGroup, ThereAreAsManyLaunchesAsParametersAskFor) {
  std::vector<std::string> shapes;
  for (int i = 0; i < 150; ++i)
    shapes.push_back(num(1 + i * 37 % 600) + "x");
  expectUpdates(shapes, 3);
}

// The second reads what the first writes, the third is of another body.
TEST(GpuGroup, WhatDependsOnAnotherIsNotBesideIt) {
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
    step.set("x", x);
    step.set("w", w);
    step.run();
    expectClose(step.get("y"), y);
  }
}

// Blocks of one launch run in any order: the first must have read q before the
// second writes it.
TEST(GpuGroup, WhatIsReadIsNotWrittenBeside) {
  auto argument = [](const char *name, const std::string &role) {
    return std::string("%") + name + ": tensor<9xf32> {dpc.role = \"" + role +
           "\", dpc.name = \"" + name + "\"";
  };
  auto sgd = [](const char *results, const char *operands) {
    return std::string("  ") + results + " = dpc.sgd " + operands +
           ", %one, %lr, %t momentum = 5.0e-1 weight_decay = 0.0 {dpc.phase = "
           "\"update\"} : (tensor<9xf32>, tensor<9xf32>, tensor<9xf32>, "
           "tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<9xf32>, "
           "tensor<9xf32>)\n";
  };
  auto text = [&](const char *gradient) {
    return "func.func @step(" + argument("p", "parameter") + "}, " +
           argument("b", "state") +
           ", dpc.of = \"p\", dpc.slot = \"momentum\"}, " +
           argument("q", "parameter") + "}, " + argument("c", "state") +
           ", dpc.of = \"q\", dpc.slot = \"momentum\"}, " +
           argument("g", "input") +
           "}, %lr: tensor<f32> {dpc.role = \"scalar\", dpc.name = \"lr\"}, "
           "%t: tensor<f32> {dpc.role = \"scalar\", dpc.name = \"step\"}) -> "
           "(tensor<9xf32> {dpc.name = \"p\", dpc.ties = 0 : i64}, "
           "tensor<9xf32> {dpc.name = \"b\", dpc.ties = 1 : i64}, "
           "tensor<9xf32> {dpc.name = \"q\", dpc.ties = 2 : i64}, "
           "tensor<9xf32> {dpc.name = \"c\", dpc.ties = 3 : i64}) {\n"
           "  %one = dpc.constant dense<1.0> : tensor<f32> -> tensor<f32>\n" +
           sgd("%p1, %b1", (std::string("%p, %b, ") + gradient).c_str()) +
           sgd("%q1, %c1", "%q, %c, %g") +
           "  return %p1, %b1, %q1, %c1 : tensor<9xf32>, tensor<9xf32>, "
           "tensor<9xf32>, tensor<9xf32>\n}";
  };
  for (auto [gradient, launches] : {std::pair("%g", 1), std::pair("%q", 2)}) {
    Step step(text(gradient));
    ASSERT_EQ(step.error, "");
    EXPECT_EQ(launchesOf(step.plan, "update"), size_t(launches)) << gradient;
  }
}

// Whatever a tensor's place: 16 bytes at a time, and no code for each.
TEST(GpuGroup, MovesVectors) {
  for (const char *target : {"sm_80", "sm_90"}) {
    std::vector<std::string> shapes;
    for (int i = 0; i < 60; ++i)
      shapes.push_back(num(768 * (i % 5 + 1)) + "x64x");
    std::string ptx = ptxOf(adamwOf(shapes), target);
    auto count = [&](const char *what) {
      size_t found = 0;
      for (size_t at = 0; (at = ptx.find(what, at + 1)) != std::string::npos;)
        ++found;
      return found;
    };
    EXPECT_EQ(count("adamw("), 1u);
    // Eight elements: p, m, v in two each, g in one; single ones at the end.
    EXPECT_EQ(count("ld.global.v4.b32"), 7u);
    EXPECT_EQ(count("st.global.v4.b32"), 6u);
  }
}

} // namespace
