//===- ExpertLoads.h - Rows of the fullest rank of experts ------*- C++ -*-===//
//
// The expected routing (cost-model/strategy/Routing.h) is a module attribute,
// so that the cost of an op depends on the program alone.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace dpc {

/// Stores `loads[n - 1]`: the rows of the fullest of the ranks with n experts
/// each, relative to those of n average experts. A model with mixtures of
/// several sizes has only those of the largest.
void setExpertLoads(mlir::ModuleOp module, llvm::ArrayRef<double> loads);

/// Returns the load of ranks with `experts` experts for the module of `op`: 1
/// if none is stored.
double expertLoad(mlir::Operation *op, int64_t experts);

} // namespace dpc
