//===- SpecOptions.h - A strategy and a cluster from options ----*- C++ -*-===//
#pragma once

#include "cost-model/machine/Cluster.h"
#include "passes/shard/LoweringSpec.h"

namespace dpc {

struct SpecOnCluster {
  LoweringSpec spec;
  cost::Cluster cluster;
};

/// Reads the options of a pass: a strategy (as in --strategy), the number of
/// micro-batches per step, and a cluster (cluster.json or local:N). Missing
/// keys of the strategy are neutral. An empty `cluster` means local:N with the
/// number of ranks of the strategy.
Expected<SpecOnCluster> readSpec(llvm::StringRef strategy, int64_t microBatches,
                                 llvm::StringRef cluster);

} // namespace dpc
