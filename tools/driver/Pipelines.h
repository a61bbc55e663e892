//===- Pipelines.h - The pass pipelines of the options ----------*- C++ -*-===//
#pragma once

#include "passes/graph/Phases.h"
#include "tools/driver/CompileOptions.h"

namespace dpc {

/// Returns the passes from a fused @forward to the program that can be sharded.
/// If `trains` is true, the passes add gradients and an optimizer.
/// Adds the loss of --loss to an imported @forward; without the option, no
/// pass.
PassList lossPasses(const CompileOptions &options);

PassList graphPasses(const CompileOptions &options, bool trains);

/// Returns the passes for --precision, followed by graphPasses.
PassList stepPasses(const CompileOptions &options, bool trains);

/// Returns whether steps with gradients that are not finite are skipped: with
/// fp16, or with a fixed loss scale.
bool scalesLoss(const CompileOptions &options);

} // namespace dpc
