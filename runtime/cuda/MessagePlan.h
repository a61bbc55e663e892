//===- MessagePlan.h - the order of communication on streams ----*- C++ -*-===//
//
// In a plan, a send does not wait for its recv. On a stream, the two ends of a
// message wait for each other and block later work on their streams, so that
// two ranks that both send before they receive would deadlock.
//
// planDevice avoids deadlocks: it simulates the steps of all ranks and derives
// one common order of communication. In the simulation, a send copies its bytes
// and its rank continues; a message moves when its recv is reached. Messages
// that move at the same time form a round, which the ranks submit to NCCL as
// one group. All ranks submit collectives and rounds in the simulated order, in
// which no operation depends on a later operation.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/exec/RankProgram.h"

namespace dpc::rt {

/// One end of a message in a round.
struct PlannedMessage {
  int peer = 0;
  bool isSend = false;
  int64_t bytes = 0;
  /// For a recv, the index of its task; for a send, the offset of its copy.
  int task = -1;
  int64_t offset = 0;
};

/// One entry in the sequence of work that a rank submits to its streams.
struct DeviceStep {
  enum class Kind {
    Task,  ///< task `task`
    Stage, ///< copies the message of send `task` to `offset`
    Round  ///< sends and receives `messages` together
  } kind = Kind::Task;
  int task = -1;
  int64_t offset = 0;
  std::vector<PlannedMessage> messages;
};

struct DeviceProgram {
  /// In the order of the plan. A task's queue determines its stream.
  std::vector<Task> tasks;
  int events = 0;
  std::vector<DeviceStep> steps;
  int64_t messageBytes = 0; ///< memory for copies of messages
};

/// Returns the program of `rank`, whose arena is at `device`. All ranks compute
/// the same order of communication.
Expected<DeviceProgram> planDevice(const Plan &plan, int rank, char *device);

} // namespace dpc::rt
