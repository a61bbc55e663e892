//===- FuseEpilogues.h - Epilogues of GEMMs ---------------------*- C++ -*-===//
//
// The parts of dpc-fuse-epilogues. FuseEpiloguesMatch.cpp finds the epilogue of
// a matmul, FuseEpilogues.cpp makes one kernel of both (ir/GemmEpilogues.h).
// The strides of the operands (ir/GemmLayout.h) decide whether one call can
// compute both; the pass knows nothing of plans.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_LOCAL_FUSEEPILOGUES_H
#define DPC_PASSES_LOCAL_FUSEEPILOGUES_H

#include "ir/GemmLayout.h"
#include "passes/local/FormKernels.h"

namespace dpc {

/// The epilogue of a matmul and the values that it reads and makes.
struct FusedEpilogue {
  llvm::StringRef epilogue = "none";
  mlir::Value result; ///< The value that the epilogue makes of the product.
  /// A vector that is repeated in every row; the argument of gelu or of its
  /// gradient; sums of rows. Null where `epilogue` has none.
  mlir::Value bias, aux, sums;
  KernelOp widening; ///< Reads `sums` converted to the matmul's type; or null.
  AccumulateOp adds; ///< Adds up `result`, or null.
  llvm::SmallVector<mlir::Operation *> parts; ///< The kernels that it replaces.
  /// Ops that stand before the matmul and have to run after it.
  llvm::SmallVector<mlir::Operation *> waiting;

  bool isNothing() const { return epilogue == "none" && !adds; }
};

/// Lets sums of rows read a value rather than a copy of it in f32.
void sumNarrowValues(mlir::Block &block);

/// The epilogue of the kernels that read `matmul`, with sums of the rows of its
/// result. Nothing where there is none.
std::optional<FusedEpilogue> epilogueAfter(MatmulOp matmul);

/// The sum over micro-batches that adds `matmul` up, and sums of the rows of
/// its factors. Nothing where there is neither.
std::optional<FusedEpilogue> epilogueBeside(MatmulOp matmul);

/// Fuses the matmuls of a step's loop with their epilogues. A second run
/// changes nothing.
void fuseEpilogues(mlir::func::FuncOp step);

} // namespace dpc

#endif // DPC_PASSES_LOCAL_FUSEEPILOGUES_H
