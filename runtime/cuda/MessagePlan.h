//===- MessagePlan.h - the order in which ranks communicate -----*- C++ -*-===//
//
// A plan's messages meet by tag, and a send waits for nobody. On a stream both
// ends wait for each other, and what is behind them waits, too. So a rank that
// sends before it receives, as its peer does, would wait for ever.
//
// The order that avoids it is found by playing all ranks' steps against each
// other, as the validator does: a send copies its bytes aside and its rank goes
// on; a message moves when its recv is reached. What moves at one time is a
// round: all ranks give the two ends of its messages to NCCL in one group, at
// the place that this order says. It is an order of all meetings (collectives
// and rounds) that a run without streams could have had: the first of them that
// has not happened has no end that waits for a later one. So nobody waits for
// ever.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_CUDA_MESSAGEPLAN_H
#define DPC_RUNTIME_CUDA_MESSAGEPLAN_H

#include "runtime/exec/RankProgram.h"

namespace dpc::rt {

/// A message of a step, by the tasks that send and receive it.
struct PlannedMessage {
  int peer = 0; ///< rank at the other end
  bool isSend = false;
  int64_t bytes = 0;
  /// Recv: the task, an index into the rank's tasks. Send: where its copy lies
  /// in the rank's room for messages.
  int task = -1;
  int64_t offset = 0;
};

/// What a rank gives to its streams, one after the other.
struct DeviceStep {
  enum class Kind {
    Task,  ///< task `task`
    Stage, ///< the copy that task `task`, a send, makes, to `offset`
    Round  ///< `messages` in one group
  } kind = Kind::Task;
  int task = -1;
  int64_t offset = 0;
  std::vector<PlannedMessage> messages;
};

struct DeviceProgram {
  /// Of unroll() without overlap: all in the compute queue's list, in the order
  /// of the plan; each says by its instruction which stream it is for.
  std::vector<Task> tasks;
  int events = 0;
  std::vector<DeviceStep> steps;
  int64_t messageBytes = 0; ///< room for the copies of messages
};

/// The program of `rank` over its arena at `device`. All ranks of a valid plan
/// find the same order.
Expected<DeviceProgram> planDevice(const Plan &plan, int rank, char *device);

} // namespace dpc::rt

#endif // DPC_RUNTIME_CUDA_MESSAGEPLAN_H
