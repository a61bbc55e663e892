//===- UnevenShares.h - Ranks with uneven shares of the batch ---*- C++ -*-===//
//
// All data-parallel ranks run one program. A rank with a larger share of the
// batch runs the loop of micro-batches more often (BatchShares.h). The mesh
// axis `mb` has the size that it has for even shares, so that types and offsets
// are the same: in micro-batch m, rank d works on cell s(0) + .. + s(d-1) + m
// of the D * M cells into which `dp` and `mb` cut the batch. That is correct if
//   (B1) no collective inside the loop joins data-parallel ranks, and
//   (B2) `mb` only splits dimensions where the data axes split them too.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_PRICE_UNEVENSHARES_H
#define DPC_PASSES_PRICE_UNEVENSHARES_H

#include "cost-model/machine/HeterogeneousCluster.h"
#include "cost-model/search/Evaluation.h"
#include "passes/shard/Degrees.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// Micro-batches by data-parallel rank; empty = even shares.
Expected<std::vector<int64_t>> sharesOf(const ShardDegrees &degrees);
std::vector<int64_t> sharesOf(mlir::func::FuncOp step);

/// Sets what sharesOf(step) reads.
void markShares(mlir::func::FuncOp step, llvm::ArrayRef<int64_t> shares);

/// Why the ranks of a local function cannot have uneven shares, in one line
/// that names the first op that breaks (B1) or (B2). Empty when they can.
std::string whyEvenShares(mlir::func::FuncOp step);

/// The seconds of a step in which each rank runs its share of micro-batches,
/// and then all ranks run the rest of the step together.
struct SharedSeconds {
  double step = 0;
  double compute = 0; ///< Of the rank that takes longest for its share.
};
SharedSeconds secondsOfShares(llvm::ArrayRef<cost::LoopSeconds> onGroups,
                              llvm::ArrayRef<cost::StageDevices> devices,
                              llvm::ArrayRef<int64_t> shares);

/// Gives the ranks of `evaluation` the fastest shares, where these save time,
/// and sets the times that follow.
void shareBatch(cost::Evaluation &evaluation, const cost::Cluster &cluster,
                const ShardDegrees &degrees);

} // namespace dpc

#endif // DPC_PASSES_PRICE_UNEVENSHARES_H
