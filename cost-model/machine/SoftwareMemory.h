//===- SoftwareMemory.h - The memory of other frameworks --------*- C++ -*-===//
//
// The buffers that other frameworks keep differ from those of a plan.
// passes/price/SoftwareBuffers.h counts the live bytes of a plan by the rules
// of the software. With its profile (Software.h, `memory`),
//
//   peak = states + min(activationSlack A, A + free) + reservedBytes
//
// where A are the activations and workspace at the peak. Slack is memory that
// an allocator holds without using it. The allocator returns slack before it
// fails, so the slack is never larger than the device's free memory.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_MACHINE_SOFTWAREMEMORY_H
#define DPC_COST_MODEL_MACHINE_SOFTWAREMEMORY_H

#include "cost-model/machine/Cluster.h"
#include "cost-model/solve/PeakMemory.h"

namespace dpc::cost {

/// The bytes of one parameter's states on one rank.
struct StateBytes {
  double parameter = 0, gradient = 0, update = 0;
};

/// The states of one trained parameter whose compute type is `type`. ZeRO stage
/// `zero` shards the states over `ranks` ranks. With `type` fp32, there is no
/// separate master copy.
StateBytes stateBytes(const Software &software, DType type, int64_t zero,
                      double ranks);

/// The bytes that the software of `cluster` holds when `counted` bytes are in
/// use. Slack counts as activations and workspace, the reserve as
/// communication. Returns `counted` if the profile of the software has no
/// `memory`.
MemoryBreakdown heldMemory(const Cluster &cluster, MemoryBreakdown counted);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_MACHINE_SOFTWAREMEMORY_H
