//===- Offload.h - What lies outside the device's memory --------*- C++ -*-===//
#ifndef DPC_PASSES_SHARD_OFFLOAD_H
#define DPC_PASSES_SHARD_OFFLOAD_H

#include "passes/shard/Degrees.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// Marks the arguments of a training step (or forward function) that the
/// degrees keep in another memory space with `dpc.space`:
///
///   optimizer    states, and parameters that the model reads in a narrower
///                type only (masters of mixed precision)
///   parameters   parameters; they get `dpc.at_use` too, so that every phase
///                makes anew what it needs of them
///   all          both
void markOffload(mlir::func::FuncOp func, const LoweringSpec &spec);

} // namespace dpc

#endif // DPC_PASSES_SHARD_OFFLOAD_H
