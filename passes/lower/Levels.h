//===- Levels.h - The levels of a cluster in a program ----------*- C++ -*-===//
#ifndef DPC_PASSES_LOWER_LEVELS_H
#define DPC_PASSES_LOWER_LEVELS_H

#include "cost-model/machine/Cluster.h"
#include "passes/shard/LoweringSpec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// The number of adjacent data-parallel ranks on one node. Hierarchical
/// reductions need a separate mesh axis for these ranks. Returns 1 if all
/// data-parallel ranks are on one node, if each is on a different node, or if
/// nodes have different numbers of them.
int64_t dataRanksInside(const cost::Cluster &cluster, const LoweringSpec &spec);

/// How many bytes of memory traffic take as long as gathering one byte along
/// the tensor axes; 0 without tensor axes.
double gatherCost(const cost::Cluster &cluster, const LoweringSpec &spec);

/// Marks uncompressed all_reduces of a local function that are faster
/// hierarchically (cost::Algorithm::Hierarchical) with `dpc.inner`, for
/// dpc-expand-hierarchy.
void markHierarchies(mlir::func::FuncOp step, const cost::Cluster &cluster);

} // namespace dpc

#endif // DPC_PASSES_LOWER_LEVELS_H
