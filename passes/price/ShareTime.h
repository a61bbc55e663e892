//===- ShareTime.h - Step time with uneven batch shares ---------*- C++ -*-===//
#pragma once

#include "cost-model/machine/HeterogeneousCluster.h"
#include "cost-model/search/Evaluation.h"
#include "passes/lower/UnevenShares.h"

namespace dpc {

/// The seconds of a step in which each rank runs its share of the
/// micro-batches, and all ranks then run the other phases together.
struct SharedSeconds {
  double step = 0;
  double compute = 0; ///< On the rank with the longest loop.
};
SharedSeconds secondsOfShares(llvm::ArrayRef<cost::LoopSeconds> onGroups,
                              llvm::ArrayRef<cost::StageDevices> devices,
                              llvm::ArrayRef<int64_t> shares);

/// Finds the fastest batch shares. If they are faster than even shares, sets
/// them and their step time in `evaluation`.
void shareBatch(cost::Evaluation &evaluation, const cost::Cluster &cluster,
                const LoweringSpec &spec);

} // namespace dpc
