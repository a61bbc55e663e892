//===- ReplicaCheck.h - comparison of the replicas of a tensor --*- C++ -*-===//
//
// Ranks that hold the same shard of a tensor compute the same update of this
// shard, bit for bit, because the order of sums is fixed. If a replica differs,
// the rank has a memory error, a broken core or a wrong kernel.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_JOB_REPLICACHECK_H
#define DPC_RUNTIME_JOB_REPLICACHECK_H

#include "runtime/exec/Session.h"

namespace dpc::rt {

/// The first rank that holds the same shard as `rank`. Considers only the stage
/// of `rank`, or, with `inStages`, all stages.
int64_t firstHolder(const Layout &layout, const Mesh &mesh, int64_t rank,
                    bool inStages = false);

/// Compares the replicas of all tensors between two steps. Called by all
/// processes. If replicas differ, fails in the process of rank 0, and names the
/// tensor and the ranks in the minority.
Status checkReplicas(const Plan &plan, Session &session);

} // namespace dpc::rt

#endif // DPC_RUNTIME_JOB_REPLICACHECK_H
