//===- Passes.h - Passes of the graph altitude ------------------*- C++ -*-===//
//
// Passes.td documents the passes.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace dpc {

/// The names of the functions before and after dpc-differentiate runs.
inline constexpr llvm::StringLiteral kForwardFunction = "forward";
inline constexpr llvm::StringLiteral kTrainStepFunction = "train_step";

/// Registers the gradients of all ops, which dpc-differentiate needs. Loading
/// the dialect attaches them.
void registerVjpModels(mlir::DialectRegistry &registry);

/// Expands all batch norms of `func` for a batch that is split over `dataRanks`
/// ranks, and on each rank into micro-batches (see dpc-expand-batch-norm).
/// Fails with a diagnostic if micro-batches would have different sizes.
llvm::LogicalResult expandBatchNorms(mlir::func::FuncOp func, int64_t dataRanks,
                                     int64_t microBatches);

/// Returns true if `func` has batch norms, whose results depend on the size of
/// micro-batches.
bool hasBatchNorms(mlir::func::FuncOp func);

#define GEN_PASS_DECL
#include "passes/graph/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/graph/Passes.h.inc"

inline void registerGraphPasses() { registerDpcGraphPasses(); }

} // namespace dpc
