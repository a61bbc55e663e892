//===- Import.h - Import of ONNX files into dpc modules ---------*- C++ -*-===//
//
// The public interface of the ONNX frontend (see README.md).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/emit/Options.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MemoryBuffer.h"

#include <memory>

namespace dpc {

namespace frontend {
class ModelFile;
} // namespace frontend

/// Imports the ONNX model `file` into a module with one function `@forward` at
/// the graph altitude.
///
/// The arguments are the parameters, then the buffers, then the inputs.
/// Attributes: `dpc.name` and `dpc.role`; `dpc.source` = {file, offset, bytes,
/// dtype} for weights with data (a weight whose external file does not exist is
/// abstract); `dpc.batch_dim` for inputs with a batch. Results have `dpc.name`,
/// and the result to train has `dpc.loss` (emit/Loss.h). The module has
/// `dpc.model`, the file's stem.
///
/// On failure, reports one single-line diagnostic.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
importOnnx(llvm::StringRef file, mlir::MLIRContext &context,
           const ImportOptions &options);

/// Imports the file whose bytes are in memory; messages call it `file`.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
importOnnx(std::unique_ptr<llvm::MemoryBuffer> bytes, llvm::StringRef file,
           mlir::MLIRContext &context, const ImportOptions &options);

/// Imports a parsed model. If `values` is not null, it receives the values of
/// the main graph by name.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
importOnnx(const frontend::ModelFile &model, mlir::MLIRContext &context,
           const ImportOptions &options,
           llvm::StringMap<mlir::Value> *values = nullptr);

} // namespace dpc
