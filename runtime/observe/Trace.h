//===- Trace.h - times of instructions --------------------------*- C++ -*-===//
#pragma once

#include "runtime/base/Status.h"
#include "runtime/plan/Plan.h"

#include <string>
#include <vector>

namespace dpc::rt {

struct TraceEvent {
  const Instruction *instruction = nullptr;
  const ScheduleEntry *entry = nullptr;
  int64_t step = 0;
  double begin = 0, end = 0; ///< nowSeconds()
};

struct TraceLane {
  int rank = 0;
  Queue queue = Queue::Compute;
  std::vector<TraceEvent> events;
};

/// Returns the events of a Chrome trace, separated by commas. An execution is
/// an "X" event, with microseconds since `origin`. A rank is a process, and a
/// queue is a thread.
std::string traceEventsJson(const std::vector<TraceLane> &lanes, double origin);

int64_t eventsOfStep(const Plan &plan, int64_t rank);

/// Returns how many steps to record: up to a million events (200 MB) over all
/// ranks, but at least 2 steps.
int64_t stepsToTrace(const Plan &plan);

/// Writes a file for chrome://tracing and ui.perfetto.dev. `leftOut` describes
/// missing steps; it is written as "left_out" in "otherData".
Status writeTrace(const std::string &path, const std::string &eventsJson,
                  const std::string &leftOut = "");

} // namespace dpc::rt
