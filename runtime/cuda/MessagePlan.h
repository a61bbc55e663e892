//===- MessagePlan.h - the order of communication on streams ----*- C++ -*-===//
//
// The messages of a plan match by tag, and a send does not wait. On a stream,
// both ends of a message wait for each other, and later work on the stream
// waits until the message has moved. A rank that sends before it receives, like
// its peer, would wait forever.
//
// planDevice finds a safe order by simulating the steps of all ranks together,
// as the validator does: a send copies its bytes and its rank continues; a
// message moves when its recv is reached. The messages that move at one time
// form a round: all ranks submit both ends of these messages to NCCL in one
// group, at the place that this order gives. The order of all communication
// (collectives and rounds) is one that a run without streams could have: the
// first operation that has not happened does not depend on a later operation.
// So no rank waits forever.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_CUDA_MESSAGEPLAN_H
#define DPC_RUNTIME_CUDA_MESSAGEPLAN_H

#include "runtime/exec/RankProgram.h"

namespace dpc::rt {

/// A message of a step, with the tasks that send and receive it.
struct PlannedMessage {
  int peer = 0; ///< rank at the other end
  bool isSend = false;
  int64_t bytes = 0;
  /// For a recv, the index of the task among the rank's tasks. For a send, the
  /// offset of the copy in the rank's memory for messages.
  int task = -1;
  int64_t offset = 0;
};

/// An entry of the sequence that a rank submits to its streams.
struct DeviceStep {
  enum class Kind {
    Task,  ///< task `task`
    Stage, ///< the copy of task `task`, a send, to `offset`
    Round  ///< `messages` in one group
  } kind = Kind::Task;
  int task = -1;
  int64_t offset = 0;
  std::vector<PlannedMessage> messages;
};

struct DeviceProgram {
  /// The result of unroll() without overlap: all tasks in the order of the
  /// plan. The instruction of a task says which stream it runs on.
  std::vector<Task> tasks;
  int events = 0;
  std::vector<DeviceStep> steps;
  int64_t messageBytes = 0; ///< memory for the copies of messages
};

/// The program of `rank` over its arena at `device`. All ranks of a valid plan
/// compute the same order.
Expected<DeviceProgram> planDevice(const Plan &plan, int rank, char *device);

} // namespace dpc::rt

#endif // DPC_RUNTIME_CUDA_MESSAGEPLAN_H
