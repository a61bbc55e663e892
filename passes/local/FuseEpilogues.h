//===- FuseEpilogues.h - Epilogues of GEMMs ---------------------*- C++ -*-===//
#pragma once

#include "ir/GemmLayout.h"
#include "passes/local/FormKernels.h"

namespace dpc {

/// The epilogue of a matmul, with the values that it reads and produces.
struct FusedEpilogue {
  llvm::StringRef epilogue = "none";
  mlir::Value result;
  /// `bias` is added to every row, `aux` is the argument of gelu or of its
  /// gradient, and `sums` are the sums over the rows. Each is null if
  /// `epilogue` has none.
  mlir::Value bias, aux, sums;
  /// Converts `sums` to the matmul's type and back, or null.
  KernelOp widening;
  AccumulateOp adds;
  llvm::SmallVector<mlir::Operation *> parts;
  /// Readers of `sums` that must move from before the matmul to after it.
  llvm::SmallVector<mlir::Operation *> waiting;
};

/// Makes kernels that sum rows read the narrow value instead of its f32 copy.
void sumNarrowValues(mlir::Block &block);

/// Finds the epilogue of `matmul` in the kernels that read its result, and the
/// sums over the rows of this result. Returns nullopt if there is no epilogue.
std::optional<FusedEpilogue> epilogueAfter(MatmulOp matmul);

/// Finds the accumulation of `matmul` over micro-batches, and the sums over the
/// rows of its operands. Returns nullopt if there is neither.
std::optional<FusedEpilogue> epilogueBeside(MatmulOp matmul);

/// Fuses the matmuls in the micro-batch loop with their epilogues. Idempotent.
void fuseEpilogues(mlir::func::FuncOp step);

} // namespace dpc
