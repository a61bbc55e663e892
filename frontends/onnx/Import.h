//===- Import.h - ONNX files become dpc modules ----------------*- C++ -*-===//
//
// The public face of the ONNX frontend. See README.md for what is accepted.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_ONNX_IMPORT_H
#define DPC_FRONTENDS_ONNX_IMPORT_H

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

/// Reads the ONNX model `file` into a module with one function `@forward` at
/// the graph altitude: every type is static, no type has an encoding.
///
/// Arguments are parameters, then buffers, then inputs, each with `dpc.name`
/// and `dpc.role`; weights with data have `dpc.source` = {file, offset, bytes,
/// dtype}, a weight without it is abstract (external data that is not there).
/// Inputs have `dpc.batch_dim` when they have a batch dimension. Results have
/// `dpc.name`; the first scalar float result also has `dpc.loss`. The module
/// has `dpc.model`, the file's stem.
///
/// On failure one diagnostic, of one line, says what is wrong and what would
/// be accepted.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
importOnnx(llvm::StringRef file, mlir::MLIRContext &context,
           const ImportOptions &options);

/// The same for the bytes of a file that is in memory and would be called
/// `file`.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
importOnnx(std::unique_ptr<llvm::MemoryBuffer> bytes, llvm::StringRef file,
           mlir::MLIRContext &context, const ImportOptions &options);

/// The same for a model that was read before. `values`, if given, are those of
/// the module that are values of the model's graph, by their names.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
importOnnx(const frontend::ModelFile &model, mlir::MLIRContext &context,
           const ImportOptions &options,
           llvm::StringMap<mlir::Value> *values = nullptr);

} // namespace dpc

#endif // DPC_FRONTENDS_ONNX_IMPORT_H
