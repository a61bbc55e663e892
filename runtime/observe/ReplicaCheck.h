//===- ReplicaCheck.h - do copies of a tensor still agree? ------*- C++ -*-===//
//
// Ranks that hold the same shard of a tensor compute the same update of it,
// bit for bit: sums are taken in one order everywhere. A rank whose copy
// differs has drifted: memory that lost a bit, a broken core, a wrong kernel.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_OBSERVE_REPLICACHECK_H
#define DPC_RUNTIME_OBSERVE_REPLICACHECK_H

#include "runtime/exec/Session.h"

namespace dpc::rt {

/// The first of the ranks that hold the same shard as `rank` of a value that
/// its pipeline stage has, or with `inStages` several stages.
int64_t firstHolder(const Layout &layout, const Mesh &mesh, int64_t rank,
                    bool inStages = false);

/// Compares all copies of all tensors between two steps. Called by all
/// processes; in the one that holds rank 0 it fails for copies that differ, and
/// names the tensor and the ranks that are fewest. Others learn of it there.
Status checkReplicas(const Plan &plan, Session &session);

} // namespace dpc::rt

#endif // DPC_RUNTIME_OBSERVE_REPLICACHECK_H
