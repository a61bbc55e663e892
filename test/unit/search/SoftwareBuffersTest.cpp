//===- SoftwareBuffersTest.cpp - Memory of steps by software profiles -----===//
#include "passes/price/SoftwareBuffers.h"

#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace dpc;
using cost::MemoryCategory;

namespace {

class SoftwareMemory : public ::testing::Test {
protected:
  SoftwareMemory() {
    context.loadDialect<DpcDialect, func::FuncDialect>();
    software.keepsMemory = software.narrowActivations = true;
    software.gradientBytesF16 = 2;
    software.updateBytesF16 = 16;
    software.logitBytes = 8;
  }

  cost::MemoryBreakdown memoryOf(const std::string &text) {
    module = parseSourceString<ModuleOp>(text, &context);
    if (!module) {
      ADD_FAILURE() << "the text does not parse";
      return {};
    }
    auto step = module->lookupSymbol<func::FuncOp>("step");
    return estimateMemory(step, {&software, 1, 2}).categories;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  cost::Software software;
};

/// 8 x 8 master weights on two ranks, a 16-bit copy of them, and two GEMMs, one
/// of which has an f32 result.
const std::string kProduct = R"(
!y = tensor<2x4x8xf32>
!m = tensor<4x8xf32>
!gm = tensor<8x8xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{dp}, {}]>>
func.func @step(%x: tensor<2x4x8xf16> {dpc.name = "x", dpc.role = "input"},
                %m: !m {dpc.name = "w", dpc.role = "parameter", dpc.global = !gm})
    -> (!m {dpc.global = !gm, dpc.ties = 1 : i64}) attributes {dpc.mesh = #dpc.mesh<dp=2>} {
  %w = dpc.constant dense<1.0> : tensor<8x8xf16> -> tensor<8x8xf16>
  %y = dpc.matmul %x, %w {dpc.phase = "forward"} : (tensor<2x4x8xf16>, tensor<8x8xf16>) -> !y
  %e = dpc.unary exp %y {dpc.phase = "backward"} : !y -> !y
  %f = dpc.matmul %e, %y ta {dpc.phase = "backward"} : (!y, !y) -> tensor<2x8x8xf32>
  return %m : !m
}
)";

} // namespace

TEST_F(SoftwareMemory, StatesAndActivationsOfAGemm) {
  cost::MemoryBreakdown memory = memoryOf(kProduct);
  // ZeRO-1 shards the update, but not the 64 parameters and gradients.
  EXPECT_EQ(memory[MemoryCategory::Parameters], 64 * 2);
  EXPECT_EQ(memory[MemoryCategory::Gradients], 64 * 2);
  EXPECT_EQ(memory[MemoryCategory::Optimizer], 64 * 16 / 2);
  // 64 logits of 8 bytes each, and 64 activations of 2 bytes each.
  EXPECT_EQ(memory[MemoryCategory::Activations] +
                memory[MemoryCategory::Workspace],
            64 * 8 + 64 * 2);
}

/// Backward reads an input that forward has gathered over the axis, in the
/// order of its samples.
static std::string gatheredOver(const std::string &axis) {
  return R"(
!s = tensor<2x4x8xf16>
!g = tensor<2x2x4x8xf16>
func.func @step(%s: !s {dpc.name = "s", dpc.role = "input"}) -> !g attributes {dpc.mesh = #dpc.mesh<dp=2, tp=2>} {
  %g = dpc.all_gather %s axes = [")" +
         axis + R"("] {dpc.phase = "forward"} : !s -> !g
  %x = dpc.kernel %g {dpc.phase = "forward"} : (!g) -> !g {
  ^bb0(%a: !g):
    %t = dpc.transpose %a perm = [1, 0, 2, 3] : !g -> !g
    dpc.yield %t : !g
  }
  %y = dpc.unary exp %x {dpc.phase = "forward"} : !g -> !g
  %z = dpc.unary exp %y {dpc.phase = "forward"} : !g -> !g
  %a = dpc.binary add %y, %z {dpc.phase = "forward"} : (!g, !g) -> !g
  %d = dpc.binary mul %a, %x {dpc.phase = "backward"} : (!g, !g) -> !g
  return %d : !g
}
)";
}

TEST_F(SoftwareMemory, InputsAreKeptOrGatheredAgain) {
  const double gathered = 2 * 2 * 4 * 8 * 2; // bytes
  std::vector<double> less;
  for (const char *axis : {"tp", "dp"}) {
    software.regathersInputs = false;
    double kept = memoryOf(gatheredOver(axis)).total();
    software.regathersInputs = true;
    less.push_back(kept - memoryOf(gatheredOver(axis)).total());
  }
  EXPECT_EQ(less, (std::vector<double>{gathered, 0}));
}

TEST_F(SoftwareMemory, UnfusedAttentionKeepsScores) {
  const std::string text = R"(
!q = tensor<2x2x4x8xf16>
func.func @step(%q: !q {dpc.name = "q", dpc.role = "input"}) attributes {dpc.mesh = #dpc.mesh<dp=2>} {
  %o, %lse = dpc.attention %q, %q, %q scale = 0.5 {dpc.phase = "forward"} : (!q, !q, !q) -> (!q, tensor<2x2x4xf32>)
  return
}
)";
  double rest = 2 * 256 + 64; // q, out and lse
  software.attention = cost::AttentionKernels::Fused;
  EXPECT_EQ(memoryOf(text).total(), rest);
  software.attention = cost::AttentionKernels::Unfused;
  EXPECT_EQ(memoryOf(text).total(), rest + 64 * 2);
  software.attentionDropout = true;
  EXPECT_EQ(memoryOf(text).total(), rest + 64 * 5);
}
