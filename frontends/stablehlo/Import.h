//===- Import.h - StableHLO becomes dpc modules ----------------*- C++ -*-===//
//
// The public face of the StableHLO frontend. See README.md for what is
// accepted.
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

/// Whether the text or bytecode of an .mlir file holds StableHLO, in whatever
/// form.
bool isStableHlo(llvm::StringRef bytes);

/// Reads StableHLO in MLIR's generic form into a module at the graph altitude.
/// A function becomes `@forward`, as importOnnx makes it. A training step, of
/// which arguments are donated (`tf.aliasing_output`, `jax.buffer_donor`),
/// becomes `@train_step`: donated arguments are parameters and states, tied to
/// the results that are their next values.
///
/// On failure one diagnostic, of one line, says what is wrong and what would
/// be accepted.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
importStableHlo(llvm::StringRef file, mlir::MLIRContext &context,
                const ImportOptions &options);

/// The same for the bytes of a file that is in memory and would be called
/// `file`.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
importStableHlo(std::unique_ptr<llvm::MemoryBuffer> bytes, llvm::StringRef file,
                mlir::MLIRContext &context, const ImportOptions &options);

} // namespace dpc

#endif // DPC_FRONTENDS_STABLEHLO_IMPORT_H
