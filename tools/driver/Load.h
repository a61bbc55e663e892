//===- Load.h - Reads the files of the command line --------------*- C++
//-*-===//
#ifndef DPC_TOOLS_DRIVER_LOAD_H
#define DPC_TOOLS_DRIVER_LOAD_H

#include "frontends/emit/Options.h"
#include "tools/driver/CompileOptions.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace dpc {

/// The options for a frontend.
ImportOptions importOptions(const CompileOptions &options);

/// Reads `options.model`: .onnx, .pt2, or .mlir of StableHLO or of dpc. Returns
/// null after a diagnostic.
mlir::OwningOpRef<mlir::ModuleOp> loadModel(const CompileOptions &options,
                                            mlir::MLIRContext &context);

/// If --strategy names a file (a configuration of DeepSpeed, flags of
/// Megatron-LM) and there is a cluster, adds the options that the file states
/// to `options`, and the ignored settings to its notes. Returns "" or a
/// one-line error.
std::string readNamedStrategy(CompileOptions &options);

/// Whether the compilation only prints the program, without a cluster.
bool printsProgram(const CompileOptions &options);

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_LOAD_H
