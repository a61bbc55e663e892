//===- Phases.cpp - From an imported model to what is sharded -------------===//
#include "passes/graph/Phases.h"

#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace dpc {

void addFusionPhase(OpPassManager &pm) {
  OpPassManager &functions = pm.nest<func::FuncOp>();
  // Fusion matches the few forms that simplification leaves.
  functions.addPass(createDpcSimplify());
  functions.addPass(createDpcFuse());
  // Fused ops leave casts and reshapes behind.
  functions.addPass(createDpcSimplify());
}

void addStepPhase(OpPassManager &pm, const StepOptions &options) {
  // Gradients are those of the ops that compute in the narrow type.
  if (options.precision) {
    OpPassManager &narrow = pm.nest<func::FuncOp>();
    narrow.addPass(createDpcMixedPrecision(*options.precision));
    narrow.addPass(createCanonicalizerPass());
  }
  if (options.training)
    pm.addPass(createDpcDifferentiate(*options.training));
  // The gradient of a cross entropy is simpler than that of its expansion.
  OpPassManager &functions = pm.nest<func::FuncOp>();
  functions.addPass(createDpcExpandCrossEntropy());
  functions.addPass(createCanonicalizerPass());
  // A training step shares nothing that differentiation has not shared, and
  // recomputation must not find its copies merged.
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
