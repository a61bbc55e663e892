//===- KernelScalars.h - Kernel arguments that differ by rank ---*- C++ -*-===//
//
// A kernel is compiled once for all ranks and micro-batches. Numbers that
// differ by rank, such as the offset and the valid size of a shard, are int64
// arguments. scalarsOf() lists the expressions that the runtime evaluates.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/Sharding.h"
#include "runtime/plan/Plan.h"

namespace dpc::codegen {

/// One factor of a dimension, for ops that depend on global indices.
struct LocalFactor {
  int64_t size = 1;  ///< global
  int64_t local = 1; ///< capacity of a shard
  bool uneven = false;
  std::vector<std::string> axes;
};

/// Returns the factors of dimension `dim` in the sharded type `global`. Without
/// `global`, returns one unsharded factor of size `localSize`.
llvm::SmallVector<LocalFactor> factorsOf(std::optional<mlir::Type> global,
                                         int64_t dim, int64_t localSize);

/// Returns the scalars of `op`, in the order in which its code uses them.
llvm::SmallVector<rt::ScalarExpr> scalarsOf(mlir::Operation *op);

/// Whether `op` looks up rows or columns in a sharded dimension of several
/// factors. Scalars cannot describe this case, because a shard is not a range
/// of rows.
bool looksUpInFactors(mlir::Operation *op);

/// The layout by which the runtime packs a value of type `global`.
rt::Layout layoutOf(mlir::RankedTensorType global);

} // namespace dpc::codegen
