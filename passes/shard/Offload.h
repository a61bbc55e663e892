//===- Offload.h - Marks of offloaded arguments --------*- C++ -*-===//
#ifndef DPC_PASSES_SHARD_OFFLOAD_H
#define DPC_PASSES_SHARD_OFFLOAD_H

#include "passes/shard/LoweringSpec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// Marks the arguments of a training step, or of a forward function, that stay
/// in the memory space `spec.offloadTo` with `dpc.space`. `spec.offload`
/// selects
///
///   optimizer    states, and parameters of which the model reads only a copy
///   of
///                a narrower type (master weights)
///   parameters   parameters; they get `dpc.at_use` too, so that every phase
///                recomputes what it derives from them
///   all          both
void markOffload(mlir::func::FuncOp func, const LoweringSpec &spec);

} // namespace dpc

#endif // DPC_PASSES_SHARD_OFFLOAD_H
