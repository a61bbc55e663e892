//===- FuseEpilogues.h - Epilogues of GEMMs ---------------------*- C++ -*-===//
#ifndef DPC_PASSES_LOCAL_FUSEEPILOGUES_H
#define DPC_PASSES_LOCAL_FUSEEPILOGUES_H

#include "ir/GemmLayout.h"
#include "passes/local/FormKernels.h"

namespace dpc {

/// The epilogue of a matmul, with the values that it reads and produces.
struct FusedEpilogue {
  llvm::StringRef epilogue = "none";
  mlir::Value result; ///< The result of the epilogue.
  /// `bias` is a vector that is added to every row. `aux` is the argument of
  /// gelu or of its gradient. `sums` are sums of rows. Each is null if
  /// `epilogue` has none.
  mlir::Value bias, aux, sums;
  KernelOp widening; ///< Reads `sums` converted to the matmul's type, or null.
  AccumulateOp adds; ///< Accumulates `result`, or null.
  /// The kernels that the epilogue replaces.
  llvm::SmallVector<mlir::Operation *> parts;
  /// Ops that are before the matmul but must run after it.
  llvm::SmallVector<mlir::Operation *> waiting;
};

/// Makes sums of rows read the narrow value instead of its copy in f32.
void sumNarrowValues(mlir::Block &block);

/// Finds the epilogue in the kernels that read `matmul`, and sums of the rows
/// of the matmul's result. Returns nullopt if there is none.
std::optional<FusedEpilogue> epilogueAfter(MatmulOp matmul);

/// Finds the accumulation of `matmul` over micro-batches, and sums of the rows
/// of the matmul's operands. Returns nullopt if there is neither.
std::optional<FusedEpilogue> epilogueBeside(MatmulOp matmul);

/// Fuses the matmuls in the loop of a step with their epilogues. Idempotent.
void fuseEpilogues(mlir::func::FuncOp step);

} // namespace dpc

#endif // DPC_PASSES_LOCAL_FUSEEPILOGUES_H
