//===- Passes.h - Passes of the sharded altitude -----------------*- C++
//-*-===//
#ifndef DPC_PASSES_SHARD_PASSES_H
#define DPC_PASSES_SHARD_PASSES_H

#include "ir/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace dpc {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/shard/Passes.h.inc"

/// Makes the passes of this folder known by their flags.
inline void registerShardPasses() { registerDpcShardPasses(); }

/// `@train_step`, or `@forward` when there is no `@train_step`, or null.
mlir::func::FuncOp findProgram(mlir::ModuleOp module);

} // namespace dpc

#endif // DPC_PASSES_SHARD_PASSES_H
