//===- Phases.h - The phases of the graph altitude --------------*- C++ -*-===//
//
// An imported model goes through two phases before `dpc-lower`: the fusion
// phase and the step phase. The step phase first converts to mixed precision if
// requested. For training, it then adds gradients and the optimizer.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/graph/Passes.h"

#include "mlir/Pass/PassManager.h"

#include <functional>
#include <optional>

namespace dpc {

/// A function that adds passes to a pass manager of modules.
using PassList = std::function<void(mlir::OpPassManager &)>;

/// Adds the passes that check the indices of @forward, simplify it and fuse it.
void addFusionPhase(mlir::OpPassManager &pm);

struct StepOptions {
  /// nullopt for inference
  std::optional<DpcDifferentiateOptions> training;
  std::optional<DpcMixedPrecisionOptions> precision;
};
/// Adds the passes that turn a fused @forward into a program that can be
/// lowered.
void addStepPhase(mlir::OpPassManager &pm, const StepOptions &options);

/// Fails with a diagnostic.
mlir::LogicalResult runPasses(mlir::ModuleOp module, const PassList &passes,
                              bool verifies = true);

/// Returns `passes` in the syntax of --pass-pipeline.
std::string textOf(const PassList &passes);

} // namespace dpc
