//===- PlanChecks.h - the parts of plan validation --------------*- C++ -*-===//
//
// Each check assumes that the checks with lower numbers have passed. Messages
// contain the place in the plan; validatePlan() prepends the file.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/plan/Plan.h"

#include <string>

namespace dpc::rt {

/// 1. Checks the mesh, groups, kernel file, launches and learning rate.
Status checkHeader(const Plan &plan);
/// Checks the target and the launches of GPU kernels; part of checkHeader().
Status checkLaunches(const Plan &plan);
/// 2. Checks that buffers have the right size and alignment and are inside
/// their memory space, frame or viewed buffer.
Status checkBuffers(const Plan &plan);
/// 3. Checks that tensors, inputs, outputs and scalars fit their buffers.
Status checkTensors(const Plan &plan);
/// 4. Checks fields of instructions, events, and entries of schedules.
Status checkInstructions(const Plan &plan);
/// Check the fields of an op; parts of checkInstructions().
Status checkMatmul(const Plan &plan, const MatmulOp &op);
Status checkExpertMatmul(const Plan &plan, const ExpertMatmulOp &op);
Status checkExpertTiles(const Plan &plan, const ExpertTilesOp &op);
Status checkConv(const Plan &plan, const ConvOp &op);
Status checkAttention(const Plan &plan, const AttentionOp &op);
Status checkAttention(const Plan &plan, const AttentionGradOp &op);
/// 5. Checks that values are written before they are read and not overwritten
/// in between, and that events order conflicting accesses of different queues.
Status checkLiveness(const Plan &plan);
/// 6. Checks that the collectives and messages of all ranks match.
Status checkMeetings(const Plan &plan);

/// Returns for each rank the first rank of its stage with the same schedule.
/// Checks of schedules examine only these few ranks.
std::vector<int> firstWithSchedule(const Plan &plan);

/// Returns the error "FIELD is VALUE, expected EXPECTED".
template <typename... Expected>
Status wrongField(const std::string &field, int64_t value,
                  const Expected &...expected) {
  return Status::invalid(field, " is ", value, ", expected ", expected...);
}

inline Status checkBufferId(const Plan &plan, const std::string &field,
                            int64_t id) {
  if (id >= 0 && id < static_cast<int64_t>(plan.buffers.size()))
    return Status::success();
  return wrongField(field, id, "a buffer below ", plan.buffers.size());
}

/// Returns "forward[12] (all_reduce)", for messages.
std::string placeOf(const Plan &plan, const std::string &phase, size_t index);

/// Returns -1 if an extent is negative or the product overflows.
int64_t checkedElements(const std::vector<int64_t> &shape);

bool isIdentifier(const std::string &text);

struct BufferPart {
  int buffer = -1;
  int64_t offset = 0, bytes = 0; ///< from the start of the buffer
};
inline BufferPart wholeOf(const Plan &plan, int buffer) {
  return {buffer, 0, plan.buffers[buffer].bytes};
}
/// Checks that `id` is scratch memory for the order of `rows` rows by expert,
/// or -1 in a plan for CPUs.
Status checkExpertWorkspace(const Plan &plan, int id, int64_t rows,
                            int64_t experts);

/// Returns whether byte ranges of two buffers of a stage may overlap in one
/// schedule entry. Two buffers of one frame are compared in the same slot. If
/// only one buffer is in a frame, the other is compared with the whole frame.
/// Frames must be disjoint.
bool mayOverlap(const Plan &plan, const BufferPart &a, const BufferPart &b);

/// Returns the viewed buffer if `buffer` is a view, or else `buffer`.
inline int rootOf(const Plan &plan, int buffer) {
  int parent = plan.buffers[buffer].viewOf;
  return parent < 0 ? buffer : parent;
}

} // namespace dpc::rt
