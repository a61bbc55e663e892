//===- Assign.h - Writes shardings into types -------------------*- C++ -*-===//
#ifndef DPC_PASSES_SHARD_ASSIGN_H
#define DPC_PASSES_SHARD_ASSIGN_H

#include "passes/shard/StrategyGraph.h"

namespace dpc {

/// Gives every value of `facts.func` a sharding, and inserts a `dpc.reshard`
/// where an operand's sharding differs from the sharding that its op needs. Ops
/// that the search does not cover (sums of gradients, the update) get the
/// shardings that are cheapest for their operands. Afterwards, queries of
/// `facts` about operands are invalid.
///
/// A value is resharded once per target sharding, before the first op that
/// needs the result. Gradients of parameters are resharded directly after their
/// producer, so that later computation hides the reduction.
///
/// Fails with a diagnostic at an op that cannot be split as chosen, for example
/// an op that needs the whole batch although there are several micro-batches.
mlir::LogicalResult assignShardings(const ProgramFacts &facts,
                                    const ShardChoices &choices,
                                    const LoweringSpec &spec);

} // namespace dpc

#endif // DPC_PASSES_SHARD_ASSIGN_H
