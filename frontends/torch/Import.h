//===- Import.h - .pt2 files become dpc modules ----------------*- C++ -*-===//
//
// The public face of the PyTorch frontend. See README.md for what is accepted.
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

/// Reads the exported program `file` (torch.export.save) into a module with
/// one function `@forward` at the graph altitude, as importOnnx does of ONNX.
/// Parameters and buffers have the names that the module calls them by; tied
/// weights are one argument. A weight whose record is empty is abstract.
///
/// On failure one diagnostic, of one line, says what is wrong and what would
/// be accepted.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
importTorch(llvm::StringRef file, mlir::MLIRContext &context,
            const ImportOptions &options);

/// The same for the bytes of a file that is in memory and would be called
/// `file`.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
importTorch(std::unique_ptr<llvm::MemoryBuffer> bytes, llvm::StringRef file,
            mlir::MLIRContext &context, const ImportOptions &options);

} // namespace dpc

#endif // DPC_FRONTENDS_TORCH_IMPORT_H
