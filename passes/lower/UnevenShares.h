//===- UnevenShares.h - Uneven shares of the batch --------------*- C++ -*-===//
//
// All data-parallel ranks run one program. A rank with a larger share of the
// batch runs the micro-batch loop more often (BatchShares.h). Types and offsets
// are those of even shares: the size of the mesh axis `mb` is the number of
// micro-batches with even shares. `dp` and `mb` divide the batch into D * M
// cells. In micro-batch m, rank d works on cell s(0) + .. + s(d-1) + m, where
// s(i) is the number of micro-batches of rank i. This is correct if
//   (B1) no collective of data-parallel ranks runs inside the loop, and
//   (B2) every dimension that `mb` splits is also split by the data axes, and
//        the two splits are adjacent.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/shard/LoweringSpec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// Returns the number of micro-batches of each data-parallel rank; empty if the
/// shares are even.
Expected<std::vector<int64_t>> sharesOf(const LoweringSpec &spec);
std::vector<int64_t> sharesOf(mlir::func::FuncOp step);

/// Sets the attribute that sharesOf(step) reads.
void markShares(mlir::func::FuncOp step, llvm::ArrayRef<int64_t> shares);

/// Returns why shares must be even: the first op that breaks (B1) or (B2), in
/// one line. Empty if there is none.
std::string whyEvenShares(mlir::func::FuncOp step);

} // namespace dpc
