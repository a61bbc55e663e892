//===- Passes.h - Passes of the sharded altitude ----------------*- C++ -*-===//
#ifndef DPC_PASSES_SHARD_PASSES_H
#define DPC_PASSES_SHARD_PASSES_H

#include "ir/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace dpc {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/shard/Passes.h.inc"

/// Registers the passes of this folder.
inline void registerShardPasses() { registerDpcShardPasses(); }

/// `@train_step`; `@forward` if there is no `@train_step`; else null.
mlir::func::FuncOp findProgram(mlir::ModuleOp module);

/// The `dpc.role` of an argument; empty if it has none.
inline llvm::StringRef roleOfArgument(mlir::func::FuncOp func, unsigned index) {
  auto role = func.getArgAttrOfType<mlir::StringAttr>(index, attr::kRole);
  return role ? role.getValue() : llvm::StringRef();
}

} // namespace dpc

#endif // DPC_PASSES_SHARD_PASSES_H
