//===- ShareTime.h - Step time with uneven batch shares ---------*- C++ -*-===//
#ifndef DPC_PASSES_PRICE_SHARETIME_H
#define DPC_PASSES_PRICE_SHARETIME_H

#include "cost-model/machine/HeterogeneousCluster.h"
#include "cost-model/search/Evaluation.h"
#include "passes/lower/UnevenShares.h"

namespace dpc {

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
                const LoweringSpec &degrees);

} // namespace dpc

#endif // DPC_PASSES_PRICE_SHARETIME_H
