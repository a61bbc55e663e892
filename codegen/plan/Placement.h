//===- Placement.h - Frames and offsets of a stage's buffers ----*- C++ -*-===//
#ifndef DPC_CODEGEN_PLAN_PLACEMENT_H
#define DPC_CODEGEN_PLAN_PLACEMENT_H

#include "codegen/plan/Instructions.h"

namespace dpc::codegen {

/// What a micro-batch keeps between the phases of a chunk.
struct FramePlan {
  int64_t chunk = 0;
  int id = -1;                    ///< in the plan, once placed
  llvm::SmallVector<int> buffers; ///< that are used by several phases
  llvm::SmallVector<bool> uses;   ///< by phase: it touches one of them
  int64_t count = 1;              ///< micro-batches alive at once
  /// All micro-batches run the phases that use it in the order of the phases.
  bool isOrdered = true;
  std::vector<int64_t> slots; ///< by micro-batch
};

/// What crosses phases of the loop, by chunk. Empty when no micro-batch starts
/// before the one before it has ended: then the phases are one line, and
/// lifetimes on it say all.
std::vector<FramePlan> findFrames(const rt::Plan &plan, int64_t stage,
                                  const StepSchedule &schedule,
                                  const InstructionList &list);

/// Gives the buffers of `stage` their frames and offsets, and the plan the
/// sizes of its frames and memory spaces. Events must have been added.
void placeBuffers(rt::Plan &plan, int64_t stage, const StepSchedule &schedule,
                  const InstructionList &list, std::vector<FramePlan> &frames);

} // namespace dpc::codegen

#endif // DPC_CODEGEN_PLAN_PLACEMENT_H
