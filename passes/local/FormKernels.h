//===- FormKernels.h - The parts of dpc-form-kernels ------------*- C++ -*-===//
//
// A *unit* becomes one instruction: either a group of ops that form a kernel,
// or one op that stays unchanged. A *mover* (reshape, transpose, slice,
// broadcast) only moves data.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/Dialect.h"
#include "ir/StridedView.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// Groups the compute ops of a block into kernels. Ops in a group are in
/// program order; the order of the groups is arbitrary. Ops outside kernels are
/// in no group.
std::vector<llvm::SmallVector<mlir::Operation *>>
groupKernels(mlir::Block &block);

/// Marks movers that need no buffer with `dpc.view`, and matmuls that can write
/// a transposed result with `dpc.out_perm`.
void markViews(mlir::Block &block);

/// Returns the layout of `value` in its buffer. Requires a call of markViews.
StridedView layoutOf(mlir::Value value);

} // namespace dpc
