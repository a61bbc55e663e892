//===- Assign.h - Writes shardings into types -------------------*- C++ -*-===//
#ifndef DPC_PASSES_SHARD_ASSIGN_H
#define DPC_PASSES_SHARD_ASSIGN_H

#include "passes/shard/StrategyGraph.h"

namespace dpc {

/// Gives every value of `facts.func` a sharding, and inserts a `dpc.reshard`
/// where an operand has another sharding than its op needs. Ops that the search
/// does not decide (sums of gradients, the update) take the cheapest shardings
/// for their operands. `facts` must not be asked about operands afterwards.
///
/// A value is resharded once per target sharding, before the first op that
/// needs it. Gradients of parameters are resharded right after their producer,
/// so that later computation hides the reduction.
///
/// Fails with a diagnostic at an op that cannot be split as chosen, for example
/// an op that needs the whole batch when there are micro-batches.
mlir::LogicalResult assignShardings(const ProgramFacts &facts,
                                    const ShardChoices &choices,
                                    const LoweringSpec &spec);

} // namespace dpc

#endif // DPC_PASSES_SHARD_ASSIGN_H
