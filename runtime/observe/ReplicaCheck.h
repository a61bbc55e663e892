//===- ReplicaCheck.h - comparison of the replicas of a tensor --*- C++ -*-===//
//
// Ranks that hold the same shard of a tensor compute the same update of it, bit
// for bit, because all sums have one order. A rank whose copy differs has
// drifted: a memory error, a broken core or a wrong kernel.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_OBSERVE_REPLICACHECK_H
#define DPC_RUNTIME_OBSERVE_REPLICACHECK_H

#include "runtime/exec/Session.h"

namespace dpc::rt {

/// The first rank that holds the same shard as `rank`, for a value of its
/// pipeline stage, or, with `inStages`, of several stages.
int64_t firstHolder(const Layout &layout, const Mesh &mesh, int64_t rank,
                    bool inStages = false);

/// Compares all copies of all tensors between two steps. Called by all
/// processes. In the process that holds rank 0, fails if copies differ, and
/// names the tensor and the ranks in the minority. Other processes do not
/// report the failure.
Status checkReplicas(const Plan &plan, Session &session);

} // namespace dpc::rt

#endif // DPC_RUNTIME_OBSERVE_REPLICACHECK_H
