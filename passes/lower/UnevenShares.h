//===- UnevenShares.h - Uneven shares of the batch --------------*- C++ -*-===//
//
// All data-parallel ranks run one program; ranks with a larger share of the
// batch run its loop more often (cost-model/strategy/BatchShares.h). The mesh
// axis `mb` has the micro-batches of even shares, so types and offsets are
// those of even shares: in its micro-batch m, rank d works on cell
// s(0) + .. + s(d-1) + m of the D * M cells into which `dp` and `mb` divide the
// batch. This is right as long as
//   (B1) no collective of data-parallel ranks runs inside the loop, and
//   (B2) the data axes split every dimension that `mb` splits, at that place.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_LOWER_UNEVENSHARES_H
#define DPC_PASSES_LOWER_UNEVENSHARES_H

#include "passes/shard/Degrees.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// Micro-batches by data-parallel rank; empty = the mesh's.
Expected<std::vector<int64_t>> sharesOf(const LoweringSpec &degrees);
std::vector<int64_t> sharesOf(mlir::func::FuncOp step);

/// Sets what sharesOf(step) reads.
void markShares(mlir::func::FuncOp step, llvm::ArrayRef<int64_t> shares);

/// Why the ranks of a local function cannot have uneven shares, in one line:
/// the first op that breaks (B1) or (B2). Empty when they can.
std::string whyEvenShares(mlir::func::FuncOp step);

} // namespace dpc

#endif // DPC_PASSES_LOWER_UNEVENSHARES_H
