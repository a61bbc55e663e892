//===- Levels.h - Where the levels of a cluster show ------------*- C++ -*-===//
#ifndef DPC_PASSES_LOWER_LEVELS_H
#define DPC_PASSES_LOWER_LEVELS_H

#include "cost-model/machine/Cluster.h"
#include "passes/shard/Degrees.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// How many neighbours along the data-parallel ranks are on one machine: they
/// get an axis of their own, so that reductions can go by machines. 1 when all
/// are on one, when each is alone, or where they are unevenly spread.
int64_t dataRanksInside(const cost::Cluster &cluster,
                        const LoweringSpec &degrees);

/// How many bytes of memory traffic take the time of gathering one byte along
/// the tensor axes, where `degrees` place them; 0 where there are none.
double gatherCost(const cost::Cluster &cluster, const LoweringSpec &degrees);

/// Marks all-reduces of a local function that are faster by machines
/// (cost::Algorithm::Hierarchical) with `dpc.inner`, for dpc-expand-hierarchy.
/// Compressed ones are left alone.
void markHierarchies(mlir::func::FuncOp step, const cost::Cluster &cluster);

} // namespace dpc

#endif // DPC_PASSES_LOWER_LEVELS_H
