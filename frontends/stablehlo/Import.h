//===- Import.h - Import of StableHLO into dpc modules ----------*- C++ -*-===//
//
// The public interface of the StableHLO frontend. README.md lists what it
// accepts.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_STABLEHLO_IMPORT_H
#define DPC_FRONTENDS_STABLEHLO_IMPORT_H

#include "frontends/emit/Options.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include "llvm/Support/MemoryBuffer.h"

#include <memory>

namespace dpc {

/// Whether the text or bytecode of an .mlir file holds StableHLO in any form.
bool isStableHlo(llvm::StringRef bytes);

/// Reads StableHLO in MLIR's generic form into a module at the graph altitude.
/// A function becomes `@forward`, as in importOnnx. A training step has donated
/// arguments (`tf.aliasing_output`, `jax.buffer_donor`) and becomes
/// `@train_step`: donated arguments are parameters and states, each tied to the
/// result with its next value.
///
/// On failure, one single-line diagnostic says what is wrong and what is
/// accepted.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
importStableHlo(llvm::StringRef file, mlir::MLIRContext &context,
                const ImportOptions &options);

/// Reads the bytes of a file that is in memory; messages call it `file`.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
importStableHlo(std::unique_ptr<llvm::MemoryBuffer> bytes, llvm::StringRef file,
                mlir::MLIRContext &context, const ImportOptions &options);

} // namespace dpc

#endif // DPC_FRONTENDS_STABLEHLO_IMPORT_H
