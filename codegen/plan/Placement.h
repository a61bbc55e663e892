//===- Placement.h - Frames and offsets of a stage's buffers ----*- C++ -*-===//
#pragma once

#include "codegen/plan/Instructions.h"

namespace dpc::codegen {

/// The frame of a chunk: the buffers that a micro-batch keeps between phases.
struct FramePlan {
  int64_t chunk = 0;
  int id = -1;                    ///< id in the plan, once placed
  llvm::SmallVector<int> buffers; ///< accessed by several phases
  /// uses[phase]: whether the phase accesses a buffer of the frame.
  llvm::SmallVector<bool> uses;
  int64_t count = 1; ///< the number of slots
  /// Each micro-batch runs the phases that use the frame in ascending order.
  bool isOrdered = true;
  std::vector<int64_t> slots;
};

/// Returns the frames of a stage. If each micro-batch ends before the next one
/// starts, returns no frames, because lifetimes alone decide which buffers
/// share bytes.
std::vector<FramePlan> findFrames(const rt::Plan &plan, int64_t stage,
                                  const StepSchedule &schedule,
                                  const InstructionList &list);

/// Assigns frames and offsets to the buffers of `stage`. Adds the frames and
/// the sizes of memory spaces to the plan.
void placeBuffers(rt::Plan &plan, int64_t stage, const StepSchedule &schedule,
                  const InstructionList &list, std::vector<FramePlan> &frames);

} // namespace dpc::codegen
