//===- PlanChecks.h - the parts of plan validation --------------*- C++ -*-===//
//
// Each check relies on those before it having passed. Messages name the place
// in the plan; validatePlan() puts the file in front.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_PLAN_PLANCHECKS_H
#define DPC_RUNTIME_PLAN_PLANCHECKS_H

#include "runtime/plan/Plan.h"

#include <string>

namespace dpc::rt {

/// 1. Mesh, groups, kernel file, launches, learning rate.
Status checkHeader(const Plan &plan);
/// The target and the launches of kernels for GPUs; part of 1.
Status checkLaunches(const Plan &plan);
/// 2. Buffers: sizes, alignment, inside their space; views inside parents.
Status checkBuffers(const Plan &plan);
/// 3. Tensors, inputs, outputs and scalars against their buffers.
Status checkTensors(const Plan &plan);
/// 4. Every instruction by itself; events; the schedule's entries.
Status checkInstructions(const Plan &plan);
/// What a product does beside multiplying; part of 4, when its other fields
/// have been checked.
Status checkEpilogue(const Plan &plan, const MatmulOp &op);
/// The codes that a product multiplies instead of its factors; the same.
Status checkFp8(const Plan &plan, const MatmulOp &op);
/// The fields of one convolution; part of 4.
Status checkConv(const Plan &plan, const ConvOp &op);
/// The fields of one attention or its gradient; part of 4.
Status checkAttention(const Plan &plan, const AttentionOp &op);
Status checkAttention(const Plan &plan, const AttentionGradOp &op);
/// 5. Written before read, bytes not taken by another buffer, and the
/// queues ordered by events where they touch the same bytes.
Status checkLiveness(const Plan &plan);
/// 6. Collectives and messages of all ranks meet.
Status checkMeetings(const Plan &plan);

/// By rank, the first rank of its stage with the same schedule: most plans have
/// one schedule for all ranks of a stage, which has to be looked at once.
std::vector<int> firstWithSchedule(const Plan &plan);

/// "FIELD is VALUE, expected ...".
inline Status wrongField(const std::string &field, int64_t value,
                         const std::string &expected) {
  return Status::invalid(field + " is " + std::to_string(value) +
                         ", expected " + expected);
}

/// "forward[12] (all_reduce)".
std::string placeOf(const Plan &plan, const std::string &phase, size_t index);

/// Elements of `shape`, or -1 when an extent is negative or the product does
/// not fit.
int64_t checkedElements(const std::vector<int64_t> &shape);

/// Whether `text` may be a C symbol.
bool isIdentifier(const std::string &text);

/// Some bytes of a buffer.
struct BufferPart {
  int buffer = -1;
  int64_t offset = 0, bytes = 0; ///< from the buffer's start
};
/// All bytes of a buffer.
inline BufferPart wholeOf(const Plan &plan, int buffer) {
  return {buffer, 0, plan.buffers[buffer].bytes};
}
/// Whether two parts of one stage's memory may have a byte in common. Buffers
/// of one frame are in the same slot in any entry; a frame may be in any of its
/// slots for what lies in the arena; different frames are apart.
bool mayOverlap(const Plan &plan, const BufferPart &a, const BufferPart &b);

/// The id of the buffer that owns the bytes of `buffer`.
inline int rootOf(const Plan &plan, int buffer) {
  int parent = plan.buffers[buffer].viewOf;
  return parent < 0 ? buffer : parent;
}

} // namespace dpc::rt

#endif // DPC_RUNTIME_PLAN_PLANCHECKS_H
