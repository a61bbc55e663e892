//===- SoftwareMemory.h - What software keeps of a step ---------*- C++ -*-===//
//
// Frameworks keep other things than a plan of this compiler. From the bytes
// that a plan's timeline has live, counted with the software's rules
// (passes/price/SoftwareBuffers.h), and the profile (Software.h, `memory`):
//
//   peak = states + min(activationSlack A, A + free) + reservedBytes
//
// with A the activations and workspace of the moment. Slack is memory that an
// allocator holds and nobody uses: it gives that back before it fails, so there
// is never more of it than the device has free.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_MACHINE_SOFTWAREMEMORY_H
#define DPC_COST_MODEL_MACHINE_SOFTWAREMEMORY_H

#include "cost-model/machine/Cluster.h"
#include "cost-model/solve/PeakMemory.h"

namespace dpc::cost {

/// Bytes of a parameter's states on one rank.
struct StateBytes {
  double parameter = 0, gradient = 0, update = 0;
};

/// States of one parameter that is computed with in `type` and trained, whose
/// ZeRO stage `zero` splits over `ranks`. In 32 bits there is no second copy.
StateBytes stateBytes(const Software &software, DType type, int64_t zero,
                      double ranks);

/// What the software of `cluster` holds where `counted` is in use: the slack is
/// added to activations and workspace, the reserve to communication. `counted`
/// itself where the software does not say what it keeps.
MemoryBreakdown heldMemory(const Cluster &cluster, MemoryBreakdown counted);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_MACHINE_SOFTWAREMEMORY_H
