//===- Load.h - Reads the files of the command line --------------*- C++
//-*-===//
#pragma once

#include "frontends/emit/Options.h"
#include "tools/driver/CompileOptions.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace dpc {

ImportOptions importOptions(const CompileOptions &options);

/// Reads `options.model`: .onnx, .pt2, or .mlir of StableHLO or of dpc. Returns
/// null after a diagnostic.
mlir::OwningOpRef<mlir::ModuleOp> loadModel(const CompileOptions &options,
                                            mlir::MLIRContext &context);

/// If there is a cluster and --strategy is @FILE or @FILE,KEY=VALUE,..., with
/// a configuration that exports::readStrategy() reads, adds the options in the
/// file to `options`. The keys replace those of the file. Lists the settings
/// without effect in `options.notes`. Returns "" or a one-line error.
std::string readNamedStrategy(CompileOptions &options);

/// Returns whether the compilation only prints the program, which needs no
/// cluster.
bool printsProgram(const CompileOptions &options);

/// Returns whether the model draws random numbers. Only then @forward has a
/// scalar argument, the step.
bool hasDropout(mlir::ModuleOp model);

} // namespace dpc
