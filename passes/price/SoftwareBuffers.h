//===- SoftwareBuffers.h - A step's buffers as software has them -*- C++
//-*-===//
// Other frameworks (cost-model/machine/Software.h) that run a plan keep other
// buffers. Their timeline is that of the plan, with these differences:
//
//   states       SoftwareMemory.h gives the states of every parameter of the
//                stage, including a copy that another stage saves. They replace
//                the plan's states, parameters gathered or converted before the
//                loop, and gradients on their way to the optimizer
//   activations  in 16 bits where GEMMs are (narrowActivations)
//   scores       of unfused attention, in 16 bits; with dropout also a mask of
//                bytes and the result. They live from forward to backward where
//                they are kept; with selective recomputation during each of the
//                two ops
//   logits       f32 results of 16-bit GEMMs have logitBytes per element, for
//                all their copies in the loss
//   gathers      of parameters in the loop (ZeRO-3) and of activations remain
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_PRICE_SOFTWAREBUFFERS_H
#define DPC_PASSES_PRICE_SOFTWAREBUFFERS_H

#include "passes/price/StepLiveness.h"
#include "passes/shard/Degrees.h"

namespace dpc {

/// The owner of the memory of a step on `cluster`: its software, or the plan
/// where the software's profile has no `memory`.
MemoryOwner memoryOwner(const cost::Cluster &cluster,
                        const LoweringSpec &degrees);

/// Replaces the buffers of `live` by those of `owner.software`.
void countAsSoftware(Liveness &live, const MemoryOwner &owner);

/// The bytes of one rank's states that ZeRO splits.
cost::MemoryBreakdown splitStates(mlir::func::FuncOp step,
                                  const MemoryOwner &owner);

} // namespace dpc

#endif // DPC_PASSES_PRICE_SOFTWAREBUFFERS_H
