//===- RankProgram.h - the unrolled step of one rank ------------*- C++ -*-===//
#ifndef DPC_RUNTIME_EXEC_RANKPROGRAM_H
#define DPC_RUNTIME_EXEC_RANKPROGRAM_H

#include "runtime/kernels/KernelLibrary.h"
#include "runtime/plan/Plan.h"

#include <vector>

namespace dpc::rt {

/// A wait until the event has been signalled `count` times in this step.
struct EventWait {
  int event = 0; ///< dense index, below RankProgram::events
  uint32_t count = 0;
};

/// One run of an instruction, with all look-ups resolved.
struct Task {
  const Instruction *instruction = nullptr;
  const ScheduleEntry *entry = nullptr;
  std::vector<EventWait> waits;
  int signals = -1;        ///< dense index of an event, or -1
  int64_t ledgerLine = -1; ///< see Ledger.h; -1 without communication
  // KernelOp:
  KernelFunction function = nullptr;
  std::vector<void *> pointers;
  std::vector<int64_t> scalars;
};

/// The tasks of each queue in order. Without overlap, all are in the compute
/// queue.
struct RankProgram {
  std::vector<Task> queues[kNumQueues]; ///< by Queue
  int events = 0;
  bool sends = false; ///< whether a task is a send
};

/// Unrolls the schedule of `rank` of a valid plan, for the arena at `device`.
/// Fails if `kernels` lacks a symbol. If `kernels` is null, Task::function is
/// null. If `device` is null, Task::pointers is empty.
Expected<RankProgram> unroll(const Plan &plan, int rank, char *device,
                             const KernelLibrary *kernels, bool overlap);

} // namespace dpc::rt

#endif // DPC_RUNTIME_EXEC_RANKPROGRAM_H
