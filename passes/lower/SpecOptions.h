//===- SpecOptions.h - A strategy and a cluster from options ----*- C++ -*-===//
#ifndef DPC_PASSES_LOWER_SPECOPTIONS_H
#define DPC_PASSES_LOWER_SPECOPTIONS_H

#include "cost-model/machine/Cluster.h"
#include "passes/shard/LoweringSpec.h"

namespace dpc {

struct SpecOnCluster {
  LoweringSpec spec;
  cost::Cluster cluster;
};

/// Reads the options of a pass: a strategy in the form of --strategy, whose
/// other keys are neutral, the micro-batches of a step, and a cluster.json or
/// local:N. An empty `cluster` means local:N for the strategy's ranks.
Expected<SpecOnCluster> readSpec(llvm::StringRef strategy, int64_t microBatches,
                                 llvm::StringRef cluster);

} // namespace dpc

#endif // DPC_PASSES_LOWER_SPECOPTIONS_H
