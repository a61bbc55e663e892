//===- Import.h - Import of StableHLO into dpc modules ----------*- C++ -*-===//
//
// The public interface of the StableHLO frontend (see README.md).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/emit/Options.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include "llvm/Support/MemoryBuffer.h"

#include <memory>

namespace dpc {

/// Whether the text or bytecode of an .mlir file contains StableHLO.
bool isStableHlo(llvm::StringRef bytes);

/// Imports StableHLO in MLIR's generic form, at the graph altitude. A function
/// with donated arguments (`tf.aliasing_output`, `jax.buffer_donor`) becomes
/// `@train_step`; these arguments are parameters and states, each tied to the
/// result that is its next value. Any other function becomes `@forward`, as in
/// importOnnx. On failure, one single-line diagnostic says what is wrong and
/// what is accepted.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
importStableHlo(llvm::StringRef file, mlir::MLIRContext &context,
                const ImportOptions &options);

/// Imports the file whose bytes are in memory; messages call it `file`.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
importStableHlo(std::unique_ptr<llvm::MemoryBuffer> bytes, llvm::StringRef file,
                mlir::MLIRContext &context, const ImportOptions &options);

} // namespace dpc
