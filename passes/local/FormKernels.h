//===- FormKernels.h - The parts of dpc-form-kernels ------------*- C++ -*-===//
//
// The parts of dpc-form-kernels. A *unit* becomes one instruction: it is either
// a group of ops that form a kernel, or one op that stays unchanged.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_LOCAL_FORMKERNELS_H
#define DPC_PASSES_LOCAL_FORMKERNELS_H

#include "ir/Dialect.h"
#include "ir/StridedView.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// Groups the compute ops of a block into kernels, greedily in program order.
/// The order of the groups is arbitrary; ops inside a group are in program
/// order. Ops that belong to no kernel are in no group.
std::vector<llvm::SmallVector<mlir::Operation *>>
groupKernels(mlir::Block &block);

/// Marks movers that need no buffer with `dpc.view`, and matmuls that can write
/// a transposed result with `dpc.out_perm`.
void markViews(mlir::Block &block);

/// The layout of `value` in its buffer. Call it after views are marked.
StridedView layoutOf(mlir::Value value);

} // namespace dpc

#endif // DPC_PASSES_LOCAL_FORMKERNELS_H
