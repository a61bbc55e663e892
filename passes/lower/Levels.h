//===- Levels.h - The levels of a cluster in a program ----------*- C++ -*-===//
#pragma once

#include "cost-model/machine/Cluster.h"
#include "passes/local/ExchangeRows.h"
#include "passes/shard/LoweringSpec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// Returns the number of adjacent data-parallel ranks on one node, which need a
/// separate mesh axis for hierarchical reductions. Returns 1 if all
/// data-parallel ranks are on one node, if each is on a different node, or if
/// their number differs between nodes.
int64_t dataRanksInside(const cost::Cluster &cluster, const LoweringSpec &spec);

/// Returns how many bytes of memory traffic take as long as gathering one byte
/// along the mesh axes that `isIncluded` selects; 0 without such axes.
double gatherCost(const cost::Cluster &cluster, const LoweringSpec &spec,
                  llvm::function_ref<bool(llvm::StringRef)> isIncluded);

/// Returns the seconds of gathering and exchanging along the mesh axis of
/// experts; 0 without this axis.
ExchangeCosts exchangeCosts(const cost::Cluster &cluster,
                            const LoweringSpec &spec);

/// Sets `dpc.inner`, which dpc-expand-hierarchy reads, on uncompressed
/// all_reduces for which cost::Algorithm::Hierarchical is fastest.
void markHierarchies(mlir::func::FuncOp step, const cost::Cluster &cluster);

} // namespace dpc
