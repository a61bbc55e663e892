//===- UnevenShares.h - Uneven shares of the batch --------------*- C++ -*-===//
//
// All data-parallel ranks run one program. Ranks with a larger share of the
// batch run its loop more often (cost-model/strategy/BatchShares.h). The mesh
// axis `mb` has the micro-batches of even shares, and so do types and offsets.
// `dp` and `mb` divide the batch into D * M cells. In its micro-batch m, rank d
// works on cell s(0) + .. + s(d-1) + m. This is correct if
//   (B1) no collective of data-parallel ranks runs inside the loop, and
//   (B2) the data axes split every dimension that `mb` splits, next to it.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_LOWER_UNEVENSHARES_H
#define DPC_PASSES_LOWER_UNEVENSHARES_H

#include "passes/shard/LoweringSpec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// Micro-batches by data-parallel rank; empty: those of the mesh for all.
Expected<std::vector<int64_t>> sharesOf(const LoweringSpec &spec);
std::vector<int64_t> sharesOf(mlir::func::FuncOp step);

/// Sets the attribute that sharesOf(step) reads.
void markShares(mlir::func::FuncOp step, llvm::ArrayRef<int64_t> shares);

/// One line about the first op that breaks (B1) or (B2), so that ranks cannot
/// have uneven shares; empty if there is none.
std::string whyEvenShares(mlir::func::FuncOp step);

} // namespace dpc

#endif // DPC_PASSES_LOWER_UNEVENSHARES_H
