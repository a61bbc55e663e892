//===- SoftwareBuffers.h - A step's buffers in other software ---*- C++ -*-===//
//
// Other frameworks (cost-model/machine/Software.h) execute the ops of a plan in
// the same order but keep different buffers:
//
//   states       The states of each parameter of the stage, and of a copy that
//                another stage stores (SoftwareMemory.h). They replace the
//                plan's states, the parameters that are gathered or converted
//                before the loop, and the gradients that the optimizer reads.
//   activations  16-bit if GEMMs are (narrowActivations).
//   scores       The scores of unfused attention, with 16 bits per element.
//                Dropout adds a byte mask and a second result. Scores are live
//                from forward to backward, or with selective recompute only
//                during the attention op and its gradient op.
//   logits       f32 results of 16-bit GEMMs. They take logitBytes per element,
//                which includes their copies in the loss.
//   gathers      The results of gathering parameters in the loop (ZeRO-3) and
//                activations. They stay as in the plan, except that inputs of
//                sequence-parallel layers may be gathered again for backward
//                (regathersInputs).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/price/StepLiveness.h"
#include "passes/shard/LoweringSpec.h"

namespace dpc {

/// Returns the owner whose buffers are counted on `cluster`: the software if
/// its profile has `memory`, otherwise the plan.
MemoryOwner memoryOwner(const cost::Cluster &cluster, const LoweringSpec &spec);

/// Replaces the plan's buffers in `live` by those that the software keeps.
void countAsSoftware(Liveness &live, const MemoryOwner &owner);

/// Returns the bytes of states that ZeRO shards, on one rank.
cost::MemoryBreakdown splitStates(mlir::func::FuncOp step,
                                  const MemoryOwner &owner);

} // namespace dpc
