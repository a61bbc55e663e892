//===- SoftwareBuffers.h - A step's buffers as software has them -*- C++
//-*-===//
//
// Software that runs what a plan says (cost-model/machine/Software.h) keeps
// other buffers. Its timeline is the plan's, with these differences:
//
//   states       of every parameter that the stage holds, a copy that another
//                stage saves included: SoftwareMemory.h of the cost model.
//                Those of the plan, what is gathered or converted of parameters
//                before the loop, and gradients on their way to the optimizer
//                are left out
//   activations  in 16 bits where products are (narrowActivations)
//   scores       of unfused attention, in 16 bits, with dropout a mask of bytes
//                and what is left: from forward to backward where they are
//                kept; with selective recomputation at both for a moment
//   logits       what a product of 16-bit numbers makes in f32: logitBytes
//   each,
//                as the loss takes them apart
//   gathers      of parameters in the loop stay (ZeRO-3), and of activations
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_PRICE_SOFTWAREBUFFERS_H
#define DPC_PASSES_PRICE_SOFTWAREBUFFERS_H

#include "passes/price/StepLiveness.h"
#include "passes/shard/Degrees.h"

namespace dpc {

/// What runs a strategy on `cluster`: the plan itself where its software does
/// not say what it keeps.
MemoryOwner memoryOwner(const cost::Cluster &cluster,
                        const ShardDegrees &degrees);

/// Makes the buffers of `live` those of `owner.software`.
void countAsSoftware(Liveness &live, const MemoryOwner &owner);

/// Bytes of states that ZeRO splits, of one rank.
cost::MemoryBreakdown splitStates(mlir::func::FuncOp step,
                                  const MemoryOwner &owner);

} // namespace dpc

#endif // DPC_PASSES_PRICE_SOFTWAREBUFFERS_H
