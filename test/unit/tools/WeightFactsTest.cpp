//===- WeightFactsTest.cpp - facts about weights --------------------------===//
#include "tools/driver/WeightFacts.h"

#include "ir/Attributes.h"
#include "test/unit/tools/CompilerFixture.h"

#include "mlir/Parser/Parser.h"

using namespace dpc;
using namespace mlir;

namespace {

/// @w is a matrix, @g and @b are the scale and bias of a norm, and @f is
/// frozen.
const char *kForward = R"(
func.func @forward(
    %x: tensor<2x4xTYPE> {dpc.name = "x", dpc.role = "input"},
    %g: tensor<4xTYPE> {dpc.name = "g", dpc.role = "parameter"},
    %b: tensor<4xTYPE> {dpc.name = "b", dpc.role = "parameter"},
    %f: tensor<1500x4xTYPE> {dpc.name = "f", dpc.role = "buffer", dpc.frozen},
    %s: tensor<4xTYPE> {dpc.name = "s", dpc.role = "buffer"})
    -> (tensor<2x4xTYPE> {dpc.name = "y"}) {
  %y, %mean, %rstd = dpc.norm layer %x scale %g bias %b eps = 1.0e-5 : (tensor<2x4xTYPE>, tensor<4xTYPE>, tensor<4xTYPE>) -> (tensor<2x4xTYPE>, tensor<2xf32>, tensor<2xf32>)
  return %y : tensor<2x4xTYPE>
}
)";

class WeightFacts : public CompilerFixture {
protected:
  OwningOpRef<ModuleOp> module;

  func::FuncOp forwardOf(const std::string &type) {
    std::string text = kForward;
    for (size_t at; (at = text.find("TYPE")) != std::string::npos;)
      text.replace(at, 4, type);
    module = parseSourceString<ModuleOp>(text, context.get());
    EXPECT_TRUE(module);
    return module->lookupSymbol<func::FuncOp>("forward");
  }
};

TEST_F(WeightFacts, ScalesOfNormsStartWithOneAndBiasesWithZero) {
  func::FuncOp forward = forwardOf("f32");
  markNormWeights(forward);
  auto initOf = [&](unsigned index) {
    auto init = forward.getArgAttrOfType<FloatAttr>(index, attr::kInit);
    return init ? init.getValueAsDouble() : -1;
  };
  EXPECT_EQ(initOf(1), 1);
  EXPECT_EQ(initOf(2), 0);
  for (unsigned other : {0, 3, 4})
    EXPECT_EQ(initOf(other), -1) << other;
}

TEST_F(WeightFacts, FrozenParametersAreCounted) {
  func::FuncOp forward = forwardOf("f32");
  EXPECT_EQ(remarkOnFrozen(forward),
            "frozen: 1 of 3 weights (6.0 k of 6.0 k parameters)");
  forward.removeArgAttr(3, attr::kFrozen);
  EXPECT_EQ(remarkOnFrozen(forward), "");
}

TEST_F(WeightFacts, NarrowWeightsAreSaid) {
  EXPECT_EQ(remarkOnNarrowWeights(forwardOf("f32")), "");
  EXPECT_NE(remarkOnNarrowWeights(forwardOf("bf16"))
                .find("4 of 4 float weights have type bf16"),
            std::string::npos);
}

} // namespace
