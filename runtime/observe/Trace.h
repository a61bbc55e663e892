//===- Trace.h - times of instructions --------------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_OBSERVE_TRACE_H
#define DPC_RUNTIME_OBSERVE_TRACE_H

#include "runtime/base/Status.h"
#include "runtime/plan/Plan.h"

#include <string>
#include <vector>

namespace dpc::rt {

/// One run of an instruction.
struct TraceEvent {
  const Instruction *instruction = nullptr;
  const ScheduleEntry *entry = nullptr;
  int64_t step = 0;
  double begin = 0, end = 0; ///< nowSeconds()
};

/// Events of one queue of one rank.
struct TraceLane {
  int rank = 0;
  Queue queue = Queue::Compute;
  std::vector<TraceEvent> events;
};

/// The events of a Chrome trace, separated by commas: "X" events with
/// microseconds since `origin`, a process for each rank, and a thread for each
/// queue.
std::string traceEventsJson(const std::vector<TraceLane> &lanes, double origin);

/// The number of events of `rank` in a step.
int64_t eventsOfStep(const Plan &plan, int64_t rank);

/// The number of steps to record: at most a million events over all ranks (200
/// MB), but at least 2 steps.
int64_t stepsToTrace(const Plan &plan);

/// Writes a file for chrome://tracing and ui.perfetto.dev. `leftOut` describes
/// missing steps and becomes "otherData"."left_out".
Status writeTrace(const std::string &path, const std::string &eventsJson,
                  const std::string &leftOut = "");

} // namespace dpc::rt

#endif // DPC_RUNTIME_OBSERVE_TRACE_H
