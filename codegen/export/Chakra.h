//===- Chakra.h - Execution traces for ASTRA-sim ----------------*- C++ -*-===//
//
// The trace of a rank has a node for each instruction of a simulated step, in
// the order of dpc-run --trace. A node depends on the node before it in its
// queue and on the nodes whose events it waits for. Durations are whole
// microseconds. A communication node states its number of bytes, from which a
// network simulator computes its time.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "codegen/export/Job.h"
#include "runtime/observe/Trace.h"

namespace dpc::exports {

/// The maximum number of nodes, summed over all ranks.
inline constexpr int64_t kMostChakraNodes = 1'000'000;

/// Writes "chakra.RANK.et" for each rank (GlobalMetadata and Nodes of
/// chakra.proto, each preceded by its length) and "chakra-groups.json" (the
/// ranks of each process group, by name). `lanes` has three queues for each
/// rank. Attributes of nodes, among others:
///
///   comm_size    the bytes that a rank contributes
///   pg_name      the name of a process group
///   tensor_size  the bytes loaded from, or stored to, the host or disk
Exported writeChakra(const rt::Plan &plan,
                     const std::vector<rt::TraceLane> &lanes);

} // namespace dpc::exports
