//===- BatchSums.h - Where samples of a batch meet -------------*- C++ -*-===//
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/DenseSet.h"

namespace dpc {

struct BatchSums {
  int64_t samples = 0;                   ///< of the batch; 0: not known
  llvm::DenseSet<mlir::Operation *> ops; ///< dpc.reduce
  /// Those dpc.cross_entropy whose classes are the samples of the batch.
  llvm::DenseSet<mlir::Operation *> comparisons;
};

/// Returns the reductions that sum over the dimension that counts samples, and
/// the cross entropies between samples, as far as ops carry this dimension
/// there from the inputs.
BatchSums sumsOverBatch(mlir::func::FuncOp func);

} // namespace dpc
