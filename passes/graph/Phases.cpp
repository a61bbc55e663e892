//===- Phases.cpp - The phases of the graph altitude ----------------------===//
#include "passes/graph/Phases.h"

#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace dpc {

void addFusionPhase(OpPassManager &pm) {
  OpPassManager &functions = pm.nest<func::FuncOp>();
  functions.addPass(createDpcCheckIndices());
  // Fusion matches only canonical forms.
  functions.addPass(createDpcSimplify());
  functions.addPass(createDpcFuse());
  // Fusion leaves unused casts and reshapes.
  functions.addPass(createDpcSimplify());
}

void addStepPhase(OpPassManager &pm, const StepOptions &options) {
  // Differentiation must see the final types of ops.
  if (options.precision) {
    OpPassManager &narrow = pm.nest<func::FuncOp>();
    narrow.addPass(createDpcMixedPrecision(*options.precision));
    narrow.addPass(createCanonicalizerPass());
  }
  if (options.training)
    pm.addPass(createDpcDifferentiate(*options.training));
  // Expanded here: the gradient of a cross entropy is simpler unexpanded.
  OpPassManager &functions = pm.nest<func::FuncOp>();
  functions.addPass(createDpcExpandCrossEntropy());
  functions.addPass(createCanonicalizerPass());
  // CSE would merge recomputed ops with the original ones.
  if (!options.training)
    functions.addPass(createCSEPass());
}

LogicalResult runPasses(ModuleOp module, const PassList &passes,
                        bool verifies) {
  PassManager pm(module.getContext());
  pm.enableVerifier(verifies);
  passes(pm);
  return pm.run(module);
}

std::string textOf(const PassList &passes) {
  OpPassManager pm(ModuleOp::getOperationName());
  passes(pm);
  std::string text;
  llvm::raw_string_ostream stream(text);
  pm.printAsTextualPipeline(stream);
  return text;
}

} // namespace dpc
