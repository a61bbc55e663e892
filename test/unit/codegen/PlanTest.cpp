//===- PlanTest.cpp - Buffers, events and schedules of plans --------------===//
#include "test/unit/codegen/StepHarness.h"

#include "codegen/cpu/CompileKernels.h"
#include "runtime/kernels/KernelLibrary.h"

#include <gtest/gtest.h>

using namespace dpc::test;
using namespace dpc;

namespace {

// dw = x^T x is summed over 3 micro-batches and 2 ranks before one update.
const char *const kAccumulating = R"(
func.func @step(%w: tensor<4x4xf32> {dpc.role = "parameter", dpc.name = "w"},
                %b: tensor<4x4xf32> {dpc.role = "state", dpc.name = "b", dpc.of = "w", dpc.slot = "momentum"},
                %x: tensor<2x4xf32> {dpc.role = "input", dpc.name = "x", dpc.global = tensor<12x4xf32, #dpc.sharding<#dpc.mesh<dp=2, mb=3>, [{dp, mb}, {} ]>>},
                %lr: tensor<f32> {dpc.role = "scalar", dpc.name = "lr"},
                %t: tensor<f32> {dpc.role = "scalar", dpc.name = "step"})
    -> (tensor<4x4xf32> {dpc.name = "w", dpc.ties = 0 : i64}, tensor<4x4xf32> {dpc.name = "b", dpc.ties = 1 : i64}, tensor<2x4xf32> {dpc.name = "y", dpc.global = tensor<12x4xf32, #dpc.sharding<#dpc.mesh<dp=2, mb=3>, [{dp, mb}, {} ]>>})
    attributes {dpc.mesh = #dpc.mesh<dp=2, mb=3>} {
  %one = dpc.constant dense<1.0> : tensor<f32> {dpc.phase = "setup"} -> tensor<f32>
  %y = dpc.matmul %x, %w {dpc.phase = "forward"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %g = dpc.matmul %x, %x ta {dpc.phase = "backward"} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
  %s = dpc.accumulate sum %g {dpc.phase = "backward"} : tensor<4x4xf32> -> tensor<4x4xf32>
  %r = dpc.all_reduce sum %s axes = ["dp"] {dpc.phase = "update"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %w1, %b1 = dpc.sgd %w, %b, %r, %one, %lr, %t momentum = 0.0 weight_decay = 0.0 {dpc.phase = "update"} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  return %w1, %b1, %y : tensor<4x4xf32>, tensor<4x4xf32>, tensor<2x4xf32>
})";

TEST(Plan, MicroBatchesAccumulate) {
  Step step(kAccumulating);
  ASSERT_EQ(step.error, "");
  EXPECT_EQ(step.plan.mesh.microBatches, 3);
  EXPECT_EQ(step.plan.schedule.size(), 2u);
  ASSERT_EQ(step.plan.schedule[0].size(), 8u); // setup, 3 x (fwd, bwd), update
  Array x = randomArray(8, 1), w = randomArray(16, 2);
  step.set("w", w);
  step.set("b", Array(16, 0));
  step.set("x", x);
  step.set("lr", {0.5});
  step.set("step", {1});
  // The test harness gives every micro-batch the same shard.
  for (int round = 0; round < 2; ++round) {
    step.run();
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j)
        w[i * 4 + j] -= 0.5 * 3 * (x[i] * x[j] + x[4 + i] * x[4 + j]);
    expectClose(step.get("w"), w);
  }
}

TEST(Plan, CollectiveIsInPlaceAndOrderedByEvents) {
  Step step(kAccumulating);
  ASSERT_EQ(step.error, "");
  const auto &update = step.plan.phases["update"];
  ASSERT_EQ(update.size(), 2u);
  EXPECT_EQ(update[0].queue, rt::Queue::Comm);
  ASSERT_EQ(update[0].waits.size(), 1u);
  EXPECT_EQ(update[1].waits, std::vector<int>{update[0].signals});
  const auto &reduce = std::get<rt::AllReduceOp>(update[0].op);
  const auto &fill = std::get<rt::FillOp>(step.plan.phases["setup"][0].op);
  EXPECT_EQ(reduce.buffers, std::vector<int>{fill.buffer});
  EXPECT_EQ(step.plan.buffers[fill.buffer].kind, rt::BufferKind::Gradient);
}

TEST(Plan, OutputsThatVaryWithMicroBatchesAreStored) {
  Step step(kAccumulating);
  ASSERT_EQ(step.error, "");
  const auto &forward = step.plan.phases["forward"];
  EXPECT_TRUE(std::holds_alternative<rt::LoadInputOp>(forward.front().op));
  EXPECT_TRUE(std::holds_alternative<rt::StoreOutputOp>(forward.back().op));
}

TEST(Plan, EqualKernelsShareCode) {
  std::string body, last = "%x";
  for (int i = 0; i < 4; ++i) {
    std::string next = "%v" + std::to_string(i);
    body += "  " + next + " = dpc.unary gelu " + last +
            " : tensor<8x8xf32> -> tensor<8x8xf32>\n";
    last = next;
  }
  Step step("func.func @step(%x: tensor<8x8xf32> {dpc.role = \"input\", "
            "dpc.name = \"x\"}) -> (tensor<8x8xf32> {dpc.name = \"y\"}) {\n" +
            body + "  return " + last + " : tensor<8x8xf32>\n}");
  ASSERT_EQ(step.error, "");
  std::set<std::string> symbols;
  for (const rt::Instruction &instruction : step.plan.phases["forward"])
    if (auto *kernel = std::get_if<rt::KernelOp>(&instruction.op))
      symbols.insert(kernel->symbol);
  EXPECT_EQ(symbols.size(), 1u);
  // At most two values and the output are live at the same time.
  EXPECT_LE(step.plan.arenaBytes[0], 3 * 256);
}

// While a collective runs, no other buffer may use the bytes that it reads.
TEST(Plan, BuffersOfRunningCollectivesStayLive) {
  Step step(R"(
func.func @step(%x: tensor<64xf32> {dpc.role = "input", dpc.name = "x"})
    -> (tensor<64xf32> {dpc.name = "a"}, tensor<64xf32> {dpc.name = "b"})
    attributes {dpc.mesh = #dpc.mesh<dp=2>} {
  %0 = dpc.unary exp %x : tensor<64xf32> -> tensor<64xf32>
  %1 = dpc.all_reduce sum %0 axes = ["dp"] : (tensor<64xf32>) -> tensor<64xf32>
  %2 = dpc.unary tanh %x : tensor<64xf32> -> tensor<64xf32>
  %3 = dpc.unary erf %2 : tensor<64xf32> -> tensor<64xf32>
  %4 = dpc.binary add %1, %3 : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %4, %3 : tensor<64xf32>, tensor<64xf32>
})");
  EXPECT_EQ(step.error, ""); // the validator finds races
  const auto &forward = step.plan.phases["forward"];
  for (const rt::Instruction &instruction : forward)
    if (instruction.name == "tanh" || instruction.name == "erf")
      EXPECT_TRUE(instruction.waits.empty()) << "must overlap";
}

// A collective of the setup phase overlaps with the first micro-batch. A later
// micro-batch waits only for the end of the previous micro-batch.
TEST(Plan, SetupCollectivesRunIntoTheLoop) {
  Step step(R"(
func.func @step(%w: tensor<64xf32> {dpc.role = "buffer", dpc.name = "w"},
                %x: tensor<64xf32> {dpc.role = "input", dpc.name = "x", dpc.batch_dim = 0})
    -> (tensor<128xf32> {dpc.name = "a"})
    attributes {dpc.mesh = #dpc.mesh<dp=2, mb=3>} {
  %0 = dpc.unary exp %w {dpc.phase = "setup"} : tensor<64xf32> -> tensor<64xf32>
  %1 = dpc.all_gather %0 axes = ["dp"] {dpc.phase = "setup"} : tensor<64xf32> -> tensor<2x64xf32>
  %2 = dpc.unary tanh %x {dpc.phase = "forward"} : tensor<64xf32> -> tensor<64xf32>
  %3 = dpc.unary erf %2 {dpc.phase = "forward"} : tensor<64xf32> -> tensor<64xf32>
  %4 = dpc.all_gather %3 axes = ["dp"] {dpc.phase = "forward"} : tensor<64xf32> -> tensor<2x64xf32>
  %5 = dpc.binary add %4, %1 {dpc.phase = "backward"} : (tensor<2x64xf32>, tensor<2x64xf32>) -> tensor<2x64xf32>
  %6 = dpc.all_reduce sum %5 axes = ["dp"] {dpc.phase = "backward"} : (tensor<2x64xf32>) -> tensor<2x64xf32>
  %s = dpc.accumulate sum %6 {dpc.phase = "backward"} : tensor<2x64xf32> -> tensor<2x64xf32>
  %7 = dpc.reshape %s {dpc.phase = "update"} : tensor<2x64xf32> -> tensor<128xf32>
  return %7 : tensor<128xf32>
})");
  EXPECT_EQ(step.error, ""); // the validator finds races
}

TEST(Plan, TheSameBytesAreReducedOnce) {
  Step step(R"(
func.func @step(%x: tensor<64xf32> {dpc.role = "input", dpc.name = "x"})
    -> (tensor<32xf32> {dpc.name = "a"}, tensor<32xf32> {dpc.name = "b"})
    attributes {dpc.mesh = #dpc.mesh<dp=2>} {
  %0 = dpc.unary exp %x : tensor<64xf32> -> tensor<64xf32>
  %1 = dpc.slice %0 offsets = [0] strides = [1] {dpc.view} : tensor<64xf32> -> tensor<32xf32>
  %2:2 = dpc.all_reduce sum %1, %1 axes = ["dp"] : (tensor<32xf32>, tensor<32xf32>) -> (tensor<32xf32>, tensor<32xf32>)
  return %2#0, %2#1 : tensor<32xf32>, tensor<32xf32>
})");
  ASSERT_EQ(step.error, "");
  for (const rt::Instruction &instruction : step.plan.phases["forward"])
    if (auto *reduce = std::get_if<rt::AllReduceOp>(&instruction.op)) {
      ASSERT_EQ(reduce->buffers.size(), 2u);
      const rt::Buffer &a = step.plan.buffers[reduce->buffers[0]];
      const rt::Buffer &b = step.plan.buffers[reduce->buffers[1]];
      EXPECT_TRUE(a.offset + a.bytes <= b.offset ||
                  b.offset + b.bytes <= a.offset);
    }
}

TEST(Plan, OpsThatRunBeforeTheirOperandsAreRefused) {
  Step step(R"(
func.func @step(%x: tensor<8xf32> {dpc.role = "input", dpc.name = "x"})
    -> (tensor<8xf32> {dpc.name = "a"}) {
  %0 = dpc.unary exp %x {dpc.phase = "backward"} : tensor<8xf32> -> tensor<8xf32>
  %1 = dpc.unary exp %0 {dpc.phase = "forward"} : tensor<8xf32> -> tensor<8xf32>
  return %1 : tensor<8xf32>
})");
  expectSays(step.error, "runs in phase forward, before an operand is computed "
                         "in phase backward");
}

TEST(Plan, LookupsInFactorsAreRefused) {
  Step step(R"(
func.func @step(%t: tensor<6x4xf32> {dpc.role = "buffer", dpc.name = "t"},
                %i: tensor<5xi64> {dpc.role = "input", dpc.name = "i"})
    -> (tensor<5x4xf32> {dpc.name = "a"})
    attributes {dpc.mesh = #dpc.mesh<tp=2>} {
  %0 = dpc.embedding %t, %i global = tensor<12x4xf32, #dpc.sharding<#dpc.mesh<tp=2>, [{3, 4:tp}, {}]>> : (tensor<6x4xf32>, tensor<5xi64>) -> tensor<5x4xf32>
  return %0 : tensor<5x4xf32>
})");
  expectSays(step.error, "looks up in a dimension that is split by factors");
}

TEST(Plan, CpuFeaturesAreAllThatLoopsMayUse) {
  std::string error;
  auto cpu = codegen::resolveTargetCpu("icelake-server", error);
  ASSERT_TRUE(cpu) << error;
  for (const char *feature : {"avx2", "avx512f", "avx512vbmi", "avx512vnni",
                              "gfni", "bmi2", "vaes", "lzcnt"})
    EXPECT_TRUE(llvm::is_contained(cpu->features, feature)) << feature;
  auto old = codegen::resolveTargetCpu("x86-64-v3", error);
  ASSERT_TRUE(old) << error;
  EXPECT_FALSE(llvm::is_contained(old->features, "avx512f"));
  // A plan for "native" runs on this machine.
  auto native = codegen::resolveTargetCpu("native", error);
  ASSERT_TRUE(native) << error;
  rt::Plan plan;
  plan.cpuFeatures = native->features;
  EXPECT_EQ(rt::checkCpu(plan).message(), "");
}

TEST(Plan, UpdatedParameterThatIsStillReadIsCopied) {
  Step step(R"(
func.func @step(%p: tensor<8xf32> {dpc.role = "parameter", dpc.name = "p"})
    -> (tensor<8xf32> {dpc.name = "p", dpc.ties = 0 : i64}, tensor<8xf32> {dpc.name = "old"}) {
  %q = dpc.unary exp %p {dpc.phase = "update"} : tensor<8xf32> -> tensor<8xf32>
  %o = dpc.unary neg %p {dpc.phase = "update"} : tensor<8xf32> -> tensor<8xf32>
  return %q, %o : tensor<8xf32>, tensor<8xf32>
})");
  step.run({{"p", Array(8, 0.0)}});
  expectClose(step.get("old"), Array(8, 0.0));
  EXPECT_EQ(step.get("p")[0], 1.0);
}

} // namespace
