//===- SlowRanks.h - detection of stragglers --------------------*- C++ -*-===//
//
// In a step, all ranks wait for the slowest rank, so their step times are
// equal. To find stragglers, each rank measures only instructions without
// communication.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/exec/Session.h"

namespace dpc::rt {

/// Returns by rank how many seconds instructions without communication took
/// since the last call (StepSettings::timesRanks). All processes call this;
/// only the process of rank 0 gets the times of all ranks.
Expected<std::vector<double>> ownSeconds(const Plan &plan, Session &session);

/// Returns a line for each rank whose `seconds` over `steps` steps exceed
/// `factor` times the median of its pipeline stage: "rank 2 computes 41 ms a
/// step, 2.1 times the median of the ranks of its stage". The median of an even
/// number of values is the smaller middle value.
std::vector<std::string> slowRanks(const Plan &plan,
                                   const std::vector<double> &seconds,
                                   int64_t steps, double factor);

} // namespace dpc::rt
