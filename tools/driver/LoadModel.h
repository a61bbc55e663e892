//===- LoadModel.h - A model of any format ----------------------*- C++ -*-===//
#ifndef DPC_TOOLS_DRIVER_LOADMODEL_H
#define DPC_TOOLS_DRIVER_LOADMODEL_H

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

/// One line if `program` is a training step as it stands, which what `options`
/// ask for would change; else "".
std::string whyNoStep(const CompileOptions &options, mlir::ModuleOp program);

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_LOADMODEL_H
