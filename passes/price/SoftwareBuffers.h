//===- SoftwareBuffers.h - A step's buffers in other software ---*- C++ -*-===//
//
// Other frameworks (cost-model/machine/Software.h) execute the ops of a plan in
// the same order but keep different buffers:
//
//   states       SoftwareMemory.h computes the states of each parameter of the
//                stage, and a copy of the parameter that another stage saves.
//                They replace the plan's states, parameters that are gathered
//                or converted before the loop, and gradients before the
//                optimizer
//   activations  have 16 bits if GEMMs have (narrowActivations)
//   scores       of unfused attention have 16 bits; dropout adds a byte mask
//                and the result. They are live from forward to backward; with
//                selective recompute, only during these two ops
//   logits       (f32 results of 16-bit GEMMs) take logitBytes per element;
//                logitBytes includes their copies in the loss
//   gathers      of parameters in the loop (ZeRO-3) and of activations remain
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_PRICE_SOFTWAREBUFFERS_H
#define DPC_PASSES_PRICE_SOFTWAREBUFFERS_H

#include "passes/price/StepLiveness.h"
#include "passes/shard/LoweringSpec.h"

namespace dpc {

/// The software whose buffers count on `cluster`. If the software profile has
/// no `memory`, the buffers of the plan count.
MemoryOwner memoryOwner(const cost::Cluster &cluster, const LoweringSpec &spec);

/// Replaces the buffers of `live` by the buffers that `owner.software` keeps.
void countAsSoftware(Liveness &live, const MemoryOwner &owner);

/// The bytes of one rank's states that ZeRO shards.
cost::MemoryBreakdown splitStates(mlir::func::FuncOp step,
                                  const MemoryOwner &owner);

} // namespace dpc

#endif // DPC_PASSES_PRICE_SOFTWAREBUFFERS_H
