//===- Pipelines.h - The phases that options ask for ------------*- C++ -*-===//
#ifndef DPC_TOOLS_DRIVER_PIPELINES_H
#define DPC_TOOLS_DRIVER_PIPELINES_H

#include "passes/graph/Phases.h"
#include "tools/driver/CompileOptions.h"

namespace dpc {

/// Returns the passes from a fused @forward to what is sharded: gradients and
/// the optimizer as `options` say where it `trains`.
PassList graphPasses(const CompileOptions &options, bool trains);

/// Returns the same passes behind those of --precision.
PassList stepPasses(const CompileOptions &options, bool trains);

/// Whether the program skips steps whose gradients are not finite: that of fp16
/// does, others with a fixed scale alone.
bool scalesLoss(const CompileOptions &options);

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_PIPELINES_H
