//===- Pipelines.h - Passes between a model and what is sharded -*- C++ -*-===//
#ifndef DPC_TOOLS_DRIVER_PIPELINES_H
#define DPC_TOOLS_DRIVER_PIPELINES_H

#include "tools/driver/CompileOptions.h"

#include "mlir/IR/BuiltinOps.h"

namespace dpc {

/// The passes that make a fused @forward of an imported one.
inline constexpr const char *kFusePipeline =
    "func.func(dpc-simplify,dpc-fuse,dpc-simplify)";

/// Returns the passes from a fused @forward to what is sharded: gradients and
/// the optimizer as `options` say where it `trains`.
std::string graphPipeline(const CompileOptions &options, bool trains);

/// Returns the same passes behind those of --precision.
std::string stepPipeline(const CompileOptions &options, bool trains);

/// Whether the program skips steps whose gradients are not finite: that of fp16
/// does, others with a fixed scale alone.
bool scalesLoss(const CompileOptions &options);

/// Runs `pipeline` on `module`. Fails with a diagnostic.
mlir::LogicalResult runPipeline(mlir::ModuleOp module,
                                llvm::StringRef pipeline);

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_PIPELINES_H
