//===- Import.h - Import of .pt2 files into dpc modules ---------*- C++ -*-===//
//
// The public interface of the PyTorch frontend. README.md lists what it
// accepts.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_TORCH_IMPORT_H
#define DPC_FRONTENDS_TORCH_IMPORT_H

#include "frontends/emit/Options.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include "llvm/Support/MemoryBuffer.h"

#include <memory>

namespace dpc {

/// Reads the exported program `file` (torch.export.save) into a module with one
/// function `@forward` at the graph altitude, like importOnnx. Parameters and
/// buffers have their names in the torch module; tied weights are one argument.
/// A weight whose record is empty is abstract.
///
/// On failure, one single-line diagnostic says what is wrong and what is
/// accepted.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
importTorch(llvm::StringRef file, mlir::MLIRContext &context,
            const ImportOptions &options);

/// Reads the bytes of a file that is in memory; messages call it `file`.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
importTorch(std::unique_ptr<llvm::MemoryBuffer> bytes, llvm::StringRef file,
            mlir::MLIRContext &context, const ImportOptions &options);

} // namespace dpc

#endif // DPC_FRONTENDS_TORCH_IMPORT_H
