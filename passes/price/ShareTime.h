//===- ShareTime.h - Step time with uneven batch shares ---------*- C++ -*-===//
#ifndef DPC_PASSES_PRICE_SHARETIME_H
#define DPC_PASSES_PRICE_SHARETIME_H

#include "cost-model/machine/HeterogeneousCluster.h"
#include "cost-model/search/Evaluation.h"
#include "passes/lower/UnevenShares.h"

namespace dpc {

/// The seconds of a step whose ranks take `shares`: each rank runs its
/// micro-batches, then all ranks run the rest of the step together.
struct SharedSeconds {
  double step = 0;
  double compute = 0; ///< Of the rank with the longest loop.
};
SharedSeconds secondsOfShares(llvm::ArrayRef<cost::LoopSeconds> onGroups,
                              llvm::ArrayRef<cost::StageDevices> devices,
                              llvm::ArrayRef<int64_t> shares);

/// Gives the ranks of `evaluation` the fastest shares if they are faster than
/// even shares, and sets the shares and the time of the step.
void shareBatch(cost::Evaluation &evaluation, const cost::Cluster &cluster,
                const LoweringSpec &spec);

} // namespace dpc

#endif // DPC_PASSES_PRICE_SHARETIME_H
