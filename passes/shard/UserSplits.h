//===- UserSplits.h - Arguments that are split as asked ----------*- C++
//-*-===//
#ifndef DPC_PASSES_SHARD_USERSPLITS_H
#define DPC_PASSES_SHARD_USERSPLITS_H

#include "passes/shard/StrategyGraph.h"

namespace dpc {

/// Whether the user's sharding of an argument (attr::kUserSplit), if there is
/// one, lets `axis` leave it in `state`. It speaks of tensor axes only.
bool isAsked(const ProgramFacts &facts, mlir::BlockArgument argument,
             const MeshAxis &axis, AxisState state);

/// After the last of `choices.axes`: the error names an argument that it does
/// not leave as it was asked for.
Status checkAsked(const ProgramFacts &facts, const ShardChoices &choices);

} // namespace dpc

#endif // DPC_PASSES_SHARD_USERSPLITS_H
