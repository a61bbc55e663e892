//===- Import.h - Import of ONNX files into dpc modules ---------*- C++ -*-===//
//
// The public interface of the ONNX frontend. README.md lists what it accepts.
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
/// the graph altitude: every type is static and has no encoding.
///
/// The arguments are the parameters, then the buffers, then the inputs, each
/// with `dpc.name` and `dpc.role`. Weights with data have `dpc.source` = {file,
/// offset, bytes, dtype}; a weight without data is abstract (its external file
/// does not exist). Inputs with a batch dimension have `dpc.batch_dim`. Results
/// have `dpc.name`; the first scalar float result also has `dpc.loss`. The
/// module has `dpc.model`, the file's stem.
///
/// On failure, one single-line diagnostic says what is wrong and what is
/// accepted.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
importOnnx(llvm::StringRef file, mlir::MLIRContext &context,
           const ImportOptions &options);

/// Reads the bytes of a file that is in memory; messages call it `file`.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
importOnnx(std::unique_ptr<llvm::MemoryBuffer> bytes, llvm::StringRef file,
           mlir::MLIRContext &context, const ImportOptions &options);

/// Imports a model that is already parsed. `values`, if given, receives the
/// values of the module that correspond to values of the model's graph, by
/// name.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
importOnnx(const frontend::ModelFile &model, mlir::MLIRContext &context,
           const ImportOptions &options,
           llvm::StringMap<mlir::Value> *values = nullptr);

} // namespace dpc

#endif // DPC_FRONTENDS_ONNX_IMPORT_H
