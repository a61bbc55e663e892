//===- ReplicaCheck.h - comparison of the replicas of a tensor --*- C++ -*-===//
//
// Ranks with the same shard of a tensor compute bitwise equal updates, because
// the order of sums is fixed. A rank whose replica differs has a memory error,
// a broken core or a wrong kernel.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/exec/Session.h"

namespace dpc::rt {

/// Returns the first rank that has the same shard as `rank`, in the stage of
/// `rank` or, with `inStages`, in any stage.
int64_t firstHolder(const Layout &layout, const Mesh &mesh, int64_t rank,
                    bool inStages = false);

/// Compares the replicas of all tensors between two steps. All processes call
/// this. If replicas differ, the process of rank 0 fails with the tensor and
/// the ranks in the minority.
Status checkReplicas(const Plan &plan, Session &session);

} // namespace dpc::rt
