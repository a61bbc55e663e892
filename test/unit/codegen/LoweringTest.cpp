//===- LoweringTest.cpp - Every op has a lowering or says why not ---------===//
#include "codegen/Codegen.h"
#include "ir/Dialect.h"
#include "test/unit/codegen/StepHarness.h"

#include <gtest/gtest.h>
#include <map>

using namespace mlir;

namespace dpc::test {
namespace {

/// Why the listed ops have no lowering. All others must have one.
const std::map<std::string, std::string> kWithout = {
    {"dpc.batch_norm", "expanded by dpc-expand-batch-norm"},
    {"dpc.batch_norm_grad", "expanded by dpc-expand-batch-norm"},
    {"dpc.cross_entropy", "expanded by dpc-expand-cross-entropy"},
    {"dpc.global_norm", "expanded by dpc-partition"},
    {"dpc.reshard", "planned by dpc-partition"},
    {"dpc.stage_value", "resolved by dpc-split-stages"},
    {"dpc.yield", "the end of a kernel's body"},
};

TEST(Lowering, EveryOpHasOneOrAReason) {
  DialectRegistry registry;
  registry.insert<DpcDialect>();
  codegen::registerLoweringModels(registry);
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  unsigned withLowering = 0;
  for (RegisteredOperationName name : context.getRegisteredOperations()) {
    if (name.getDialectNamespace() != "dpc")
      continue;
    bool has = name.hasInterface<LoweringOpInterface>();
    withLowering += has;
    std::string text = name.getStringRef().str();
    EXPECT_NE(has, kWithout.contains(text)) << text;
  }
  EXPECT_GE(withLowering, 41u);
}

TEST(Lowering, AnOpWithoutOneIsRefusedByName) {
  Step step(R"(
    func.func @step(%x: tensor<4x4xf32> {dpc.name = "x", dpc.role = "input"})
        -> (tensor<f32> {dpc.name = "y"}) attributes {dpc.mesh = #dpc.mesh<>} {
      %y = dpc.global_norm %x : (tensor<4x4xf32>) -> tensor<f32>
      return %y : tensor<f32>
    })");
  EXPECT_NE(step.error.find("'dpc.global_norm' op cannot be executed"),
            std::string::npos)
      << step.error;
}

} // namespace
} // namespace dpc::test
