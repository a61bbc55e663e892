//===- BatchShares.h - Ranks with unlike numbers of micro-batches -*- C++
//-*-===//
//
// All data-parallel ranks run one program; those with a larger share of the
// batch run its loop more often (cost-model/strategy/BatchShares.h). The mesh
// has `mb` = the micro-batches of even shares, so that types and offsets are
// those of even shares: rank d works in its micro-batch m on the cell s(0) + ..
// + s(d-1) + m of the D * M cells into which `dp` and `mb` cut the batch. That
// is right as long as
//   (B1) no data-parallel ranks meet inside the loop, and
//   (B2) what `mb` splits is split by the data axes at the same place.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_LOWER_BATCHSHARES_H
#define DPC_PASSES_LOWER_BATCHSHARES_H

#include "passes/shard/Degrees.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// Micro-batches by data-parallel rank; empty = the mesh's.
Expected<std::vector<int64_t>> sharesOf(const LoweringSpec &degrees);
std::vector<int64_t> sharesOf(mlir::func::FuncOp step);

/// Sets what sharesOf(step) reads.
void markShares(mlir::func::FuncOp step, llvm::ArrayRef<int64_t> shares);

/// Why ranks cannot have unlike shares of what a local function works on, in
/// one line: the first op that breaks (B1) or (B2). Empty when they can.
std::string whyEvenShares(mlir::func::FuncOp step);

} // namespace dpc

#endif // DPC_PASSES_LOWER_BATCHSHARES_H
