//===- KernelScalars.h - What a kernel asks about its rank ------*- C++ -*-===//
//
// A kernel is compiled once for all ranks and micro-batches. What differs,
// where a shard begins and how much of it exists, reaches it as int64 arguments
// that the runtime evaluates. This file is the one list of them, read by the
// writer of the plan and by the emitter of the code.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_CODEGEN_KERNEL_KERNELSCALARS_H
#define DPC_CODEGEN_KERNEL_KERNELSCALARS_H

#include "ir/Sharding.h"
#include "runtime/plan/Plan.h"

namespace dpc::codegen {

/// A factor of one dimension of an index-dependent op.
struct LocalFactor {
  int64_t size = 1;  ///< global
  int64_t local = 1; ///< capacity of a shard
  bool uneven = false;
  std::vector<std::string> axes;
};

/// The factors of dimension `dim` of `global` (a TypeAttr's type, or null for
/// an unsplit dimension of `localSize`).
llvm::SmallVector<LocalFactor> factorsOf(std::optional<mlir::Type> global,
                                         int64_t dim, int64_t localSize);

/// The scalars of `op`, in the order in which its emitter takes them.
llvm::SmallVector<rt::ScalarExpr> scalarsOf(mlir::Operation *op);

/// Whether `op` looks rows or columns up in a dimension of several factors of
/// which one is split: a shard of it is no range, as the scalars describe it.
bool looksUpInFactors(mlir::Operation *op);

/// The layout that the runtime packs a value of type `global` by.
rt::Layout layoutOf(mlir::RankedTensorType global);

} // namespace dpc::codegen

#endif // DPC_CODEGEN_KERNEL_KERNELSCALARS_H
