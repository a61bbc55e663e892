//===- Chakra.h - Execution traces for ASTRA-sim ----------------*- C++ -*-===//
//
// Of a simulated step: for each rank a node for each of its instructions, in
// the order of dpc-run --trace, that depends on the one before it in its queue
// and on those whose events it waits for. Durations are simulated ones, in
// whole microseconds; what communicates has its bytes, which a simulator of
// networks takes the time of.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_CODEGEN_EXPORT_CHAKRA_H
#define DPC_CODEGEN_EXPORT_CHAKRA_H

#include "codegen/export/Job.h"
#include "runtime/observe/Trace.h"

namespace dpc::exports {

/// Most nodes of all ranks together that are written.
inline constexpr int64_t kMostChakraNodes = 1'000'000;

/// "chakra.RANK.et" for every rank: GlobalMetadata and Nodes of chakra.proto,
/// each behind its length; and "chakra-groups.json": the ranks of every process
/// group by its name. `lanes` are those of all ranks, three queues each.
///
///   comm_size   bytes that a rank puts in
///   pg_name     a number, a key of chakra-groups.json
///   tensor_size of what is loaded from the host or disk, or stored there
Exported writeChakra(const rt::Plan &plan,
                     const std::vector<rt::TraceLane> &lanes);

} // namespace dpc::exports

#endif // DPC_CODEGEN_EXPORT_CHAKRA_H
