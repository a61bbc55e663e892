//===- SpecOptions.h - A strategy and a cluster from options ----*- C++ -*-===//
#ifndef DPC_PASSES_LOWER_SPECOPTIONS_H
#define DPC_PASSES_LOWER_SPECOPTIONS_H

#include "cost-model/machine/Cluster.h"
#include "passes/shard/Degrees.h"

namespace dpc {

struct SpecOnCluster {
  LoweringSpec spec;
  cost::Cluster cluster;
};

/// What pass options say: a strategy as in --strategy, in which every key that
/// the text leaves out is neutral, the micro-batches of a step, and a
/// cluster.json or local:N (local:N for the strategy's ranks where it is
/// empty). An error is one line.
Expected<SpecOnCluster> readSpec(llvm::StringRef strategy, int64_t microBatches,
                                 llvm::StringRef cluster);

} // namespace dpc

#endif // DPC_PASSES_LOWER_SPECOPTIONS_H
