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
  /// A vector that is added to every row; the argument of gelu or of its
  /// gradient; sums of rows. Null if `epilogue` has none.
  mlir::Value bias, aux, sums;
  KernelOp widening; ///< Reads `sums` converted to the matmul's type; or null.
  AccumulateOp adds; ///< Accumulates `result`; or null.
  llvm::SmallVector<mlir::Operation *> parts; ///< The kernels that it replaces.
  /// Ops before the matmul that have to run after it.
  llvm::SmallVector<mlir::Operation *> waiting;
};

/// Lets sums of rows read a value instead of its copy in f32.
void sumNarrowValues(mlir::Block &block);

/// The epilogue in the kernels that read `matmul`, with sums of the rows of its
/// result; or nullopt.
std::optional<FusedEpilogue> epilogueAfter(MatmulOp matmul);

/// The accumulation of `matmul` over micro-batches and sums of the rows of its
/// factors; nullopt if there is neither.
std::optional<FusedEpilogue> epilogueBeside(MatmulOp matmul);

/// Fuses the matmuls in the loop of a step with their epilogues. A second run
/// changes nothing.
void fuseEpilogues(mlir::func::FuncOp step);

} // namespace dpc

#endif // DPC_PASSES_LOCAL_FUSEEPILOGUES_H
