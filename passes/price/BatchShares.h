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
#ifndef DPC_PASSES_PRICE_BATCHSHARES_H
#define DPC_PASSES_PRICE_BATCHSHARES_H

#include "cost-model/machine/HeterogeneousCluster.h"
#include "cost-model/search/Evaluation.h"
#include "passes/shard/Degrees.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// Micro-batches by data-parallel rank; empty = the mesh's.
Expected<std::vector<int64_t>> sharesOf(const ShardDegrees &degrees);
std::vector<int64_t> sharesOf(mlir::func::FuncOp step);

/// Sets what sharesOf(step) reads.
void markShares(mlir::func::FuncOp step, llvm::ArrayRef<int64_t> shares);

/// Why ranks cannot have unlike shares of what a local function works on, in
/// one line: the first op that breaks (B1) or (B2). Empty when they can.
std::string whyEvenShares(mlir::func::FuncOp step);

/// A step of ranks with these shares: each runs its micro-batches, then all do
/// the rest together.
struct SharedSeconds {
  double step = 0;
  double compute = 0; ///< Of the rank that takes longest for its share.
};
SharedSeconds secondsOfShares(llvm::ArrayRef<cost::LoopSeconds> onGroups,
                              llvm::ArrayRef<cost::StageDevices> devices,
                              llvm::ArrayRef<int64_t> shares);

/// Gives the ranks of `evaluation` the shares that are fastest, where that is
/// worth it, and sets what follows from them.
void shareBatch(cost::Evaluation &evaluation, const cost::Cluster &cluster,
                const ShardDegrees &degrees);

} // namespace dpc

#endif // DPC_PASSES_PRICE_BATCHSHARES_H
