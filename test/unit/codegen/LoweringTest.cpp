//===- LoweringTest.cpp - Ops without a lowering are refused --------------===//
#include "test/unit/codegen/StepHarness.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace dpc::test {
namespace {

TEST(Lowering, OpsWithoutLoweringAreRefused) {
  Step step(R"(
    func.func @step(%x: tensor<4x4xf32> {dpc.name = "x", dpc.role = "input"})
        -> (tensor<f32> {dpc.name = "y"}) attributes {dpc.mesh = #dpc.mesh<>} {
      %y = dpc.global_norm %x : (tensor<4x4xf32>) -> tensor<f32>
      return %y : tensor<f32>
    })");
  expectSays(step.error, "'dpc.global_norm' op cannot be executed");
}

} // namespace
} // namespace dpc::test
