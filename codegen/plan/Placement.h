//===- Placement.h - Frames and offsets of a stage's buffers ----*- C++ -*-===//
#ifndef DPC_CODEGEN_PLAN_PLACEMENT_H
#define DPC_CODEGEN_PLAN_PLACEMENT_H

#include "codegen/plan/Instructions.h"

namespace dpc::codegen {

/// The frame of a chunk: the buffers that a micro-batch keeps between phases.
struct FramePlan {
  int64_t chunk = 0;
  int id = -1;                    ///< of the frame in the plan, once placed
  llvm::SmallVector<int> buffers; ///< buffers that several phases access
  llvm::SmallVector<bool> uses;   ///< by phase: whether it accesses a buffer
  int64_t count = 1;              ///< micro-batches alive at once
  /// Each micro-batch runs the phases that use the frame in ascending order.
  bool isOrdered = true;
  std::vector<int64_t> slots; ///< the slot of each micro-batch
};

/// The frames of a stage, by chunk. Empty if each micro-batch ends before the
/// next one starts, because lifetimes alone then decide which buffers share
/// bytes.
std::vector<FramePlan> findFrames(const rt::Plan &plan, int64_t stage,
                                  const StepSchedule &schedule,
                                  const InstructionList &list);

/// Assigns frames and offsets to the buffers of `stage`, and adds the frames
/// and the sizes of memory spaces to the plan.
void placeBuffers(rt::Plan &plan, int64_t stage, const StepSchedule &schedule,
                  const InstructionList &list, std::vector<FramePlan> &frames);

} // namespace dpc::codegen

#endif // DPC_CODEGEN_PLAN_PLACEMENT_H
