//===- Offload.h - Marks of offloaded arguments --------*- C++ -*-===//
#pragma once

#include "passes/shard/LoweringSpec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// Sets `dpc.space` on the arguments of a training step or forward function
/// that stay in the memory space `spec.offloadTo`. `spec.offload` selects them:
///
///   optimizer    states, and master weights: parameters that the model reads
///                only through a copy of a narrower type
///   parameters   parameters; they also get `dpc.at_use`, so that every phase
///                recomputes the values that are computed from them
///   all          both
void markOffload(mlir::func::FuncOp func, const LoweringSpec &spec);

} // namespace dpc
