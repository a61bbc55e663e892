//===- RankProgram.h - the unrolled step of one rank ------------*- C++ -*-===//
#pragma once

#include "runtime/kernels/KernelLibrary.h"
#include "runtime/plan/Plan.h"

#include <vector>

namespace dpc::rt {

/// Waits until the event has been signalled `count` times in this step.
struct EventWait {
  int event = 0; ///< below RankProgram::events
  uint32_t count = 0;
};

struct Task {
  const Instruction *instruction = nullptr;
  const ScheduleEntry *entry = nullptr;
  std::vector<EventWait> waits;
  int signals = -1; ///< event, or -1
  /// see Ledger.h; -1 without communication
  int64_t ledgerLine = -1;
  // KernelOp:
  KernelFunction function = nullptr;
  std::vector<void *> pointers;
  std::vector<int64_t> scalars;
  std::vector<Task> body; ///< of an ExpertTilesOp
};

/// The tasks of each queue. Without overlap, the compute queue has all tasks.
struct RankProgram {
  std::vector<Task> queues[kNumQueues]; ///< by Queue
  int events = 0;
  bool sends = false;
};

/// Unrolls the schedule of `rank`. `plan` must be valid, and `device` is the
/// arena of the rank. Fails if `kernels` lacks a symbol. Task::function is null
/// if `kernels` is null, and Task::pointers is empty if `device` is null.
Expected<RankProgram> unroll(const Plan &plan, int rank, char *device,
                             const KernelLibrary *kernels, bool overlap);

} // namespace dpc::rt
