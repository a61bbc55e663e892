//===- Load.h - What the command line names ---------------------*- C++ -*-===//
#ifndef DPC_TOOLS_DRIVER_LOAD_H
#define DPC_TOOLS_DRIVER_LOAD_H

#include "frontends/emit/Options.h"
#include "tools/driver/CompileOptions.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace dpc {

/// What a frontend is told of `options`.
ImportOptions importOptions(const CompileOptions &options);

/// Reads `options.model`: .onnx, .pt2, or .mlir of StableHLO or of dpc,
/// whatever it holds. Null after a diagnostic.
mlir::OwningOpRef<mlir::ModuleOp> loadModel(const CompileOptions &options,
                                            mlir::MLIRContext &context);

/// Where --strategy names a file (a configuration of DeepSpeed, flags of
/// Megatron-LM): puts what it says into `options`, and into its notes what has
/// no effect. Returns "" or a one-line error. Does nothing otherwise, or
/// without a cluster.
std::string readNamedStrategy(CompileOptions &options);

/// Whether `options` ask for the program alone, which needs no cluster.
bool printsProgram(const CompileOptions &options);

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_LOAD_H
