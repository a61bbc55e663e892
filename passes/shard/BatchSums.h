//===- BatchSums.h - Sums over the samples of a batch ----------*- C++ -*-===//
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/DenseSet.h"

namespace dpc {

struct BatchSums {
  int64_t samples = 0;                   ///< of the batch; 0: not known
  llvm::DenseSet<mlir::Operation *> ops; ///< dpc.reduce
};

/// Returns the reductions that sum over the dimension that counts samples, as
/// far as ops carry it there from the inputs.
BatchSums sumsOverBatch(mlir::func::FuncOp func);

} // namespace dpc
