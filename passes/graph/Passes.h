//===- Passes.h - Passes of the graph altitude ------------------*- C++ -*-===//
//
// See Passes.td for what each pass does.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_GRAPH_PASSES_H
#define DPC_PASSES_GRAPH_PASSES_H

#include "ir/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace dpc {

/// The names of the functions before and after dpc-differentiate runs.
inline constexpr llvm::StringLiteral kForwardFunction = "forward";
inline constexpr llvm::StringLiteral kTrainStepFunction = "train_step";

/// Registers the gradients of all ops; they are attached when the dialect
/// loads. Called by `dpc-differentiate`.
void registerVjpModels(mlir::DialectRegistry &registry);

/// Expands all batch norms of `func` for a batch that is split over `dataRanks`
/// ranks and then into `microBatches` (see dpc-expand-batch-norm). Fails with a
/// diagnostic if micro-batches would have different sizes.
llvm::LogicalResult expandBatchNorms(mlir::func::FuncOp func, int64_t dataRanks,
                                     int64_t microBatches);

/// True if `func` has batch norms; their results depend on the size of
/// micro-batches.
bool hasBatchNorms(mlir::func::FuncOp func);

#define GEN_PASS_DECL
#include "passes/graph/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/graph/Passes.h.inc"

/// Registers the passes for pipelines and command lines.
inline void registerGraphPasses() { registerDpcGraphPasses(); }

} // namespace dpc

#endif // DPC_PASSES_GRAPH_PASSES_H
