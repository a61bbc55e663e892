//===- PlanChecks.h - the parts of plan validation --------------*- C++ -*-===//
//
// Each check assumes that the checks before it have passed. Messages name the
// place in the plan; validatePlan() prepends the file.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_PLAN_PLANCHECKS_H
#define DPC_RUNTIME_PLAN_PLANCHECKS_H

#include "runtime/plan/Plan.h"

#include <string>

namespace dpc::rt {

/// 1. Mesh, groups, kernel file, launches, learning rate.
Status checkHeader(const Plan &plan);
/// The target and the launches of GPU kernels; part of 1.
Status checkLaunches(const Plan &plan);
/// 2. Buffers: sizes, alignment, and ranges in spaces, frames and viewed
/// buffers.
Status checkBuffers(const Plan &plan);
/// 3. Tensors, inputs, outputs and scalars, and whether they fit their buffers.
Status checkTensors(const Plan &plan);
/// 4. The fields of each instruction; events; the entries of schedules.
Status checkInstructions(const Plan &plan);
/// The fields of one GEMM, convolution or attention; part of 4.
Status checkMatmul(const Plan &plan, const MatmulOp &op);
Status checkConv(const Plan &plan, const ConvOp &op);
Status checkAttention(const Plan &plan, const AttentionOp &op);
Status checkAttention(const Plan &plan, const AttentionGradOp &op);
/// 5. Liveness: values are written before they are read and not overwritten in
/// between. Events order the accesses of different queues to the same bytes.
Status checkLiveness(const Plan &plan);
/// 6. The collectives and messages of all ranks match.
Status checkMeetings(const Plan &plan);

/// For each rank, the first rank of its stage with the same schedule. Checks of
/// schedules examine only these ranks, because most plans have one schedule for
/// each stage.
std::vector<int> firstWithSchedule(const Plan &plan);

/// The error "FIELD is VALUE, expected EXPECTED".
template <typename... Expected>
Status wrongField(const std::string &field, int64_t value,
                  const Expected &...expected) {
  return Status::invalid(field, " is ", value, ", expected ", expected...);
}

/// Fails unless `id` is the id of a buffer of the plan.
inline Status checkBufferId(const Plan &plan, const std::string &field,
                            int64_t id) {
  if (id >= 0 && id < static_cast<int64_t>(plan.buffers.size()))
    return Status::success();
  return wrongField(field, id, "a buffer below ", plan.buffers.size());
}

/// "forward[12] (all_reduce)".
std::string placeOf(const Plan &plan, const std::string &phase, size_t index);

/// The number of elements of `shape`, or -1 when an extent is negative or the
/// product overflows.
int64_t checkedElements(const std::vector<int64_t> &shape);

/// Whether `text` is a valid C identifier.
bool isIdentifier(const std::string &text);

/// A byte range of a buffer.
struct BufferPart {
  int buffer = -1;
  int64_t offset = 0, bytes = 0; ///< from the buffer's start
};
/// All bytes of a buffer.
inline BufferPart wholeOf(const Plan &plan, int buffer) {
  return {buffer, 0, plan.buffers[buffer].bytes};
}
/// Whether two parts of a stage's memory may share a byte. A schedule entry
/// uses the same slot for all buffers of a frame. A buffer outside frames is
/// compared with all slots. Different frames are disjoint.
bool mayOverlap(const Plan &plan, const BufferPart &a, const BufferPart &b);

/// The buffer that `buffer` is a view of, or `buffer` itself.
inline int rootOf(const Plan &plan, int buffer) {
  int parent = plan.buffers[buffer].viewOf;
  return parent < 0 ? buffer : parent;
}

} // namespace dpc::rt

#endif // DPC_RUNTIME_PLAN_PLANCHECKS_H
