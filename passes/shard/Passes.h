//===- Passes.h - Passes of the sharded altitude ----------------*- C++ -*-===//
#pragma once

#include "ir/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace dpc {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/shard/Passes.h.inc"

inline void registerShardPasses() { registerDpcShardPasses(); }

/// Returns `@train_step`, else `@forward`, else null.
mlir::func::FuncOp findProgram(mlir::ModuleOp module);

/// Marks the results of a program that have a dimension that counts samples
/// (attr::kBatchDim), as far as ops carry it there from the inputs.
void markBatchDims(mlir::func::FuncOp func);

/// Returns the `dpc.role` of an argument, or "".
inline llvm::StringRef roleOfArgument(mlir::func::FuncOp func, unsigned index) {
  auto role = func.getArgAttrOfType<mlir::StringAttr>(index, attr::kRole);
  return role ? role.getValue() : llvm::StringRef();
}

} // namespace dpc
