//===- Import.h - Import of .pt2 files into dpc modules ---------*- C++ -*-===//
//
// The public interface of the PyTorch frontend (see README.md).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/emit/Options.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include "llvm/Support/MemoryBuffer.h"

#include <memory>

namespace dpc {

/// Imports the exported program `file` (torch.export.save) as importOnnx does.
/// Parameters and buffers have their names in the torch module; tied weights
/// are one argument. A weight whose record is empty is abstract.
///
/// On failure, reports one single-line diagnostic.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
importTorch(llvm::StringRef file, mlir::MLIRContext &context,
            const ImportOptions &options);

/// Imports the file whose bytes are in memory; messages call it `file`.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
importTorch(std::unique_ptr<llvm::MemoryBuffer> bytes, llvm::StringRef file,
            mlir::MLIRContext &context, const ImportOptions &options);

} // namespace dpc
