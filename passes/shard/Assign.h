//===- Assign.h - Writes shardings into types -------------------*- C++ -*-===//
#pragma once

#include "passes/shard/StrategyGraph.h"

namespace dpc {

/// Assigns a sharding to every value of `facts.func`. Inserts a `dpc.reshard`
/// where the sharding of an operand differs from the one that the op needs. The
/// search does not decide sums of gradients and the update; their shardings are
/// chosen so that resharding their operands sends the fewest bytes. Afterwards,
/// `facts` is not valid for operands.  A value is resharded once per target
/// sharding, before the first op that needs the result. The gradient of a
/// parameter is resharded directly after the op that produces it, so that later
/// computation hides the reduction.  Fails with a diagnostic at an op that
/// cannot be split as chosen, for example an op that needs the whole batch
/// although there are several micro-batches.
mlir::LogicalResult assignShardings(const ProgramFacts &facts,
                                    const ShardChoices &choices,
                                    const LoweringSpec &spec);

} // namespace dpc
