//===- SlowRanks.h - detection of stragglers --------------------*- C++ -*-===//
//
// All ranks wait for the slowest rank in a step, so their step times are equal.
// Only the time that a rank spends in instructions without communication
// reveals a straggler.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_JOB_SLOWRANKS_H
#define DPC_RUNTIME_JOB_SLOWRANKS_H

#include "runtime/exec/Session.h"

namespace dpc::rt {

/// How many seconds each rank spent without communication
/// (StepSettings::timesRanks) since the last call. Called by all processes.
/// Only the process of rank 0 gets the complete list.
Expected<std::vector<double>> ownSeconds(const Plan &plan, Session &session);

/// A line for each rank whose `seconds` over `steps` steps exceed `factor`
/// times the median of its pipeline stage: "rank 2 computes 41 ms a step, 2.1
/// times the median of the ranks of its stage". The median of an even number of
/// values is the lower middle one.
std::vector<std::string> slowRanks(const Plan &plan,
                                   const std::vector<double> &seconds,
                                   int64_t steps, double factor);

} // namespace dpc::rt

#endif // DPC_RUNTIME_JOB_SLOWRANKS_H
