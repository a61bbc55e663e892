//===- SoftwareMemory.h - The memory of other frameworks --------*- C++ -*-===//
//
// Computes the memory of other frameworks, whose buffers differ from those of a
// plan. passes/price/SoftwareBuffers.h counts the live bytes of a plan by the
// rules of the software. The peak on a device is
//
//   states + min(activationSlack * A, A + free) + reservedBytes
//
// where A is the size of activations and workspace at the peak, `free` is the
// free memory of the device, and the other names are fields of the software's
// profile (Software.h). Slack is memory that an allocator holds without using
// it. The allocator returns slack before it fails, so slack is at most `free`.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cost-model/machine/Cluster.h"
#include "cost-model/solve/PeakMemory.h"

namespace dpc::cost {

/// The bytes of one parameter's states on one rank.
struct StateBytes {
  double parameter = 0, gradient = 0, update = 0;
};

/// Returns the states of one trained parameter with compute type `type`. ZeRO
/// stage `zero` shards the states over `ranks` ranks. For fp32, there is no
/// separate master copy.
StateBytes stateBytes(const Software &software, DType type, int64_t zero,
                      double ranks);

/// Returns the bytes that the cluster's software holds while `counted` bytes
/// are in use. Slack counts as activations and workspace, and the reserve
/// counts as communication. Returns `counted` if `keepsMemory` is false.
MemoryBreakdown heldMemory(const Cluster &cluster, MemoryBreakdown counted);

} // namespace dpc::cost
