//===- Phases.h - From an imported model to what is sharded -----*- C++ -*-===//
//
// The phases of the graph altitude, in their order: fusion, then one of
//
//   training    [mixed precision], gradients and the optimizer
//   inference   [mixed precision]
//
// `dpc-lower` takes what they leave.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_GRAPH_PHASES_H
#define DPC_PASSES_GRAPH_PHASES_H

#include "passes/graph/Passes.h"

#include "mlir/Pass/PassManager.h"

#include <functional>
#include <optional>

namespace dpc {

/// Adds passes to a pass manager of modules.
using PassList = std::function<void(mlir::OpPassManager &)>;

/// An imported @forward becomes one of fused ops.
void addFusionPhase(mlir::OpPassManager &pm);

/// What becomes of a fused @forward.
struct StepOptions {
  /// Gradients and the optimizer; none for inference.
  std::optional<DpcDifferentiateOptions> training;
  /// The type of GEMMs where it is not f32.
  std::optional<DpcMixedPrecisionOptions> precision;
};
void addStepPhase(mlir::OpPassManager &pm, const StepOptions &options);

/// Runs `passes` on `module`. Fails with a diagnostic.
mlir::LogicalResult runPasses(mlir::ModuleOp module, const PassList &passes,
                              bool verifies = true);

/// What --pass-pipeline takes for `passes`.
std::string textOf(const PassList &passes);

} // namespace dpc

#endif // DPC_PASSES_GRAPH_PHASES_H
