//===- FuseEpiloguesTest.cpp - dpc-fuse-epilogues -------------------------===//
#include "ir/GemmEpilogues.h"
#include "test/unit/local/LocalTest.h"

#include "mlir/IR/Verifier.h"

#include <cmath>

using namespace mlir;

namespace dpc::test {
namespace {

using Epilogues = std::vector<std::string>;

struct Fused {
  Epilogues epilogues; ///< One per matmul; "-": none, "+": accumulates.
  int kernels = 0;     ///< Kernels without a matmul.
};

std::vector<HostArray> inputsOf(func::FuncOp step) {
  std::vector<HostArray> inputs;
  int64_t next = 0;
  for (unsigned i = 0; i < step.getNumArguments(); ++i) {
    auto type = cast<RankedTensorType>(
        step.getArgAttrOfType<TypeAttr>(i, attr::kGlobal).getValue());
    HostArray &input = inputs.emplace_back(
        HostArray({type.getShape().begin(), type.getShape().end()}));
    for (double &value : input.data)
      value = static_cast<double>(next++ * 5 % 7 - 3);
  }
  return inputs;
}

/// Checks that the pass keeps all results and is idempotent.
Fused fuse(const std::string &text) {
  auto module = parse(text);
  auto step = module->lookupSymbol<func::FuncOp>("step");
  std::vector<HostArray> inputs = inputsOf(step);
  RankResult before = runRanks(step, inputs);
  EXPECT_TRUE(runPasses(*module, "dpc-fuse-epilogues,dpc-verify-local"));
  EXPECT_TRUE(succeeded(verify(*module)));
  RankResult after = runRanks(step, inputs);
  EXPECT_EQ(after.disagreement, "");
  for (size_t i = 0; i < before.outputs.size(); ++i) {
    EXPECT_FALSE(llvm::any_of(before.outputs[i].data,
                              [](double value) { return std::isnan(value); }));
    EXPECT_EQ(before.outputs[i].data, after.outputs[i].data);
  }
  std::string once;
  llvm::raw_string_ostream(once) << *module;
  EXPECT_TRUE(runPasses(*module, "dpc-fuse-epilogues"));
  std::string twice;
  llvm::raw_string_ostream(twice) << *module;
  EXPECT_EQ(once, twice);
  Fused fused;
  for (Operation &op : step.getBody().front()) {
    if (!matmulOf(&op)) {
      fused.kernels += isa<KernelOp>(op);
      continue;
    }
    std::string name = isa<MatmulOp>(op) ? "-" : epilogueOf(&op).str();
    fused.epilogues.push_back(name + (sumInPlace(&op) ? "+" : ""));
  }
  return fused;
}

/// A step over 3 micro-batches. "@forward" in `body` is replaced by the
/// attribute of this phase.
std::string step(const std::string &arguments, const std::string &results,
                 const std::string &body) {
  std::string text = "func.func @step(" + arguments + ") -> (" + results +
                     ") attributes {dpc.mesh = #dpc.mesh<mb=3>} {\n" + body +
                     "}\n";
  for (const char *phase : {"forward", "backward", "update"}) {
    std::string mark = "@" + std::string(phase),
                full = "{dpc.phase = \"" + std::string(phase) + "\"}";
    for (size_t at; (at = text.find(mark)) != std::string::npos;)
      text.replace(at, mark.size(), full);
  }
  return text;
}

std::string global(const std::string &type, const std::string &dims) {
  return " {dpc.global = tensor<" + type + ", #dpc.sharding<#dpc.mesh<mb=3>, " +
         dims + ">>}";
}

/// A weight gradient, and accumulated sums over the rows of %dy. `between` may
/// read these sums before the matmul.
std::string weightGradient(const std::string &between,
                           const std::string &sums) {
  return step("%dy: tensor<2x8xf32>" + global("6x8xf32", "[{mb}, {}]") +
                  ", %x: tensor<2x4xf32>" + global("6x4xf32", "[{mb}, {}]"),
              "tensor<8x4xf32>" + global("8x4xf32", "[{}, {}]") +
                  ", tensor<8xf32>" + global("8xf32", "[{}]"),
              R"mlir(
  %r = dpc.kernel %dy @backward : (tensor<2x8xf32>) -> tensor<8xf32> {
  ^bb0(%i: tensor<2x8xf32>):
    %k = dpc.reduce sum %i dims = [0] : tensor<2x8xf32> -> tensor<8xf32>
    dpc.yield %k : tensor<8xf32>
  }
)mlir" + between + "  %db = dpc.accumulate sum " +
                  sums + R"mlir( @backward : tensor<8xf32> -> tensor<8xf32>
  %p = dpc.matmul %dy, %x ta @backward : (tensor<2x8xf32>, tensor<2x4xf32>) -> tensor<8x4xf32>
  %dw = dpc.accumulate sum %p @backward : tensor<8x4xf32> -> tensor<8x4xf32>
  return %dw, %db : tensor<8x4xf32>, tensor<8xf32>
)mlir");
}

TEST(FuseEpilogues, GradientsOverMicroBatches) {
  Fused all = fuse(weightGradient("", "%r"));
  EXPECT_EQ(all.epilogues, Epilogues({"sums_of_a+"}));
  EXPECT_EQ(all.kernels, 0);
  // Views of the sums move after the GEMM, but computation does not.
  Fused viewed = fuse(weightGradient(
      "  %v = dpc.reshape %r @backward : tensor<8xf32> -> tensor<4x2xf32>\n"
      "  %u = dpc.reshape %v @backward : tensor<4x2xf32> -> tensor<8xf32>\n",
      "%u"));
  EXPECT_EQ(viewed.epilogues, Epilogues({"sums_of_a+"}));
  Fused read = fuse(weightGradient(R"mlir(
  %n = dpc.kernel %r @backward : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%i: tensor<8xf32>):
    %k = dpc.unary neg %i : tensor<8xf32> -> tensor<8xf32>
    dpc.yield %k : tensor<8xf32>
  }
)mlir",
                                   "%n"));
  EXPECT_EQ(read.epilogues, Epilogues({"-+"}));
  EXPECT_EQ(read.kernels, 2);
}

/// y = relu(x w + v). v has type `vector` and is broadcast along dimension
/// `dim`. If `rest` is not empty, it must define the result %z.
std::string biased(int64_t dim, const std::string &vector,
                   const std::string &rest = "", bool isShared = true) {
  std::string w = isShared ? "4x8xf32" : "2x4x8xf32";
  return step("%x: tensor<2x2x4xf32>" + global("2x6x4xf32", "[{}, {mb}, {}]") +
                  ", %w: tensor<" + w + ">" +
                  global(w, isShared ? "[{}, {}]" : "[{}, {}, {}]") +
                  ", %v: tensor<" + vector + ">" + global(vector, "[{}]"),
              "tensor<2x2x8xf32>" + global("2x6x8xf32", "[{}, {mb}, {}]"),
              R"mlir(
  %s = dpc.matmul %x, %w @forward : (tensor<2x2x4xf32>, tensor<)mlir" +
                  w + R"mlir(>) -> tensor<2x2x8xf32>
  %b = dpc.broadcast %v dims = [)mlir" +
                  std::to_string(dim) +
                  "] {dpc.view, dpc.phase = \"forward\"} : tensor<" + vector +
                  R"mlir(> -> tensor<2x2x8xf32>
  %y = dpc.kernel %b, %s @forward : (tensor<2x2x8xf32>, tensor<2x2x8xf32>) -> tensor<2x2x8xf32> {
  ^bb0(%i: tensor<2x2x8xf32>, %j: tensor<2x2x8xf32>):
    %k = dpc.binary add %i, %j : (tensor<2x2x8xf32>, tensor<2x2x8xf32>) -> tensor<2x2x8xf32>
    %l = dpc.unary relu %k : tensor<2x2x8xf32> -> tensor<2x2x8xf32>
    dpc.yield %l : tensor<2x2x8xf32>
  }
)mlir" + rest + "  return " +
                  (rest.empty() ? "%y" : "%z") + " : tensor<2x2x8xf32>\n");
}

TEST(FuseEpilogues, OnlyWhatOneCallComputes) {
  EXPECT_EQ(fuse(biased(2, "8xf32")).epilogues, Epilogues({"relu_bias"}));
  // Not fused: a bias per row, one matrix per sample, a GEMM with two readers.
  EXPECT_EQ(fuse(biased(1, "2xf32")).epilogues, Epilogues({"-"}));
  EXPECT_EQ(fuse(biased(2, "8xf32", "", false)).epilogues, Epilogues({"-"}));
  Fused read = fuse(biased(2, "8xf32", R"mlir(
  %z = dpc.kernel %y, %s @forward : (tensor<2x2x8xf32>, tensor<2x2x8xf32>) -> tensor<2x2x8xf32> {
  ^bb0(%i: tensor<2x2x8xf32>, %j: tensor<2x2x8xf32>):
    %k = dpc.binary mul %i, %j : (tensor<2x2x8xf32>, tensor<2x2x8xf32>) -> tensor<2x2x8xf32>
    dpc.yield %k : tensor<2x2x8xf32>
  }
)mlir"));
  EXPECT_EQ(read.epilogues, Epilogues({"-"}));
  EXPECT_EQ(read.kernels, 2);
}

// The sums over the rows of a gradient belong to the GEMM that produces the
// gradient, not to the GEMM that reads it.
TEST(FuseEpilogues, SumsBelongToTheMatmulOfTheRows) {
  Fused fused =
      fuse(step("%dy: tensor<2x4xf32>" + global("6x4xf32", "[{mb}, {}]") +
                    ", %w: tensor<4x8xf32>" + global("4x8xf32", "[{}, {}]") +
                    ", %h: tensor<2x8xf32>" + global("6x8xf32", "[{mb}, {}]"),
                "tensor<8x8xf32>" + global("8x8xf32", "[{}, {}]") +
                    ", tensor<8xf32>" + global("8xf32", "[{}]"),
                R"mlir(
  %s = dpc.matmul %dy, %w @backward : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
  %dx = dpc.kernel %h, %s @backward : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32> {
  ^bb0(%i: tensor<2x8xf32>, %j: tensor<2x8xf32>):
    %k = dpc.unary gelu_tanh_grad %i : tensor<2x8xf32> -> tensor<2x8xf32>
    %l = dpc.binary mul %j, %k : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
    dpc.yield %l : tensor<2x8xf32>
  }
  %r = dpc.kernel %dx @backward : (tensor<2x8xf32>) -> tensor<8xf32> {
  ^bb0(%i: tensor<2x8xf32>):
    %k = dpc.reduce sum %i dims = [0] : tensor<2x8xf32> -> tensor<8xf32>
    dpc.yield %k : tensor<8xf32>
  }
  %db = dpc.accumulate sum %r @backward : tensor<8xf32> -> tensor<8xf32>
  %p = dpc.matmul %dx, %dx ta @backward : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<8x8xf32>
  %dw = dpc.accumulate sum %p @backward : tensor<8x8xf32> -> tensor<8x8xf32>
  return %dw, %db : tensor<8x8xf32>, tensor<8xf32>
)mlir"));
  EXPECT_EQ(fused.epilogues, Epilogues({"gelu_grad_bias", "-+"}));
  EXPECT_EQ(fused.kernels, 0);
}

} // namespace
} // namespace dpc::test
