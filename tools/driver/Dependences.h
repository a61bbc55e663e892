//===- Dependences.h - What scores depend on --------------------*- C++ -*-===//
//
// Runs a small version of a model with inputs that differ in one position, one
// label, one mask or one sample, and compares the scores of its losses. What
// changes depends on what was changed. This finds each way in which a position
// reads the token that it predicts: attention without a mask, a convolution
// over later positions, a norm over all positions, a reshape that mixes them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tools/driver/BuildPlan.h"

#include "mlir/IR/BuiltinOps.h"

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace dpc {

struct Dependences {
  std::map<std::string, rt::Dependence> inputs; ///< by the name of the input
  /// A line for each dependence that is probably a mistake in the model.
  std::vector<std::string> mistakes;
  /// Why nothing was measured, or "".
  std::string failure;
};

/// Measures the dependences of `fused`, a module with the @forward of dpc-fuse
/// and a loss. Compiles a small version in temporary folders inside `dir`.
/// There are no dependences if the loss compares nothing with labels or targets
/// (tools/driver/Comparisons.h).
Dependences dependencesOf(mlir::ModuleOp fused, const PlanSettings &settings,
                          const std::filesystem::path &dir);

} // namespace dpc
