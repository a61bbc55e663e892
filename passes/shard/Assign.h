//===- Assign.h - Shardings into types ---------------------------*- C++
//-*-===//
//
// Turns choices into types: every op gets the shardings its choice asks for,
// `dpc.reshard` stands where an operand lies otherwise, results follow from the
// op's rule. Ops that search did not decide about (sums of gradients, the
// update) take what costs least given their operands.
//
// Invariants: one reshard per value and target sharding; it stands before the
// first op that wants it, except for gradients of parameters, which are brought
// to the parameter's sharding where they are made, so that their reduction can
// overlap with what follows.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_SHARD_ASSIGN_H
#define DPC_PASSES_SHARD_ASSIGN_H

#include "passes/shard/StrategyGraph.h"

namespace dpc {

/// Gives all values of `facts.func` a sharding and inserts reshards. `facts`
/// cannot be used for queries about operands afterwards. Fails with a
/// diagnostic at the op that cannot be split as asked, for example one that
/// needs the whole batch when there are micro-batches.
mlir::LogicalResult assignShardings(const ProgramFacts &facts,
                                    const ShardChoices &choices,
                                    const LoweringSpec &degrees);

} // namespace dpc

#endif // DPC_PASSES_SHARD_ASSIGN_H
