//===- SlowRanks.h - who keeps the others waiting? --------------*- C++ -*-===//
//
// In a step everybody waits for the slowest rank, so all ranks' steps take the
// same time, and the one to blame looks like the others. What tells it apart is
// the time that it spends by itself: in instructions that meet no other rank.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_OBSERVE_SLOWRANKS_H
#define DPC_RUNTIME_OBSERVE_SLOWRANKS_H

#include "runtime/exec/Session.h"

namespace dpc::rt {

/// Every rank's own seconds (ExecutorOptions::timesRanks) since it was asked
/// last. Called by all processes; complete in the one that holds rank 0.
Expected<std::vector<double>> ownSeconds(const Plan &plan, Session &session);

/// A line for every rank whose `seconds` over `steps` steps are above `factor`
/// times the median of its pipeline stage's ranks: "rank 2 computes 41 ms a
/// step, 2.1 times the median of the ranks of its stage". Of an even
/// number the lower one in the middle counts: of two ranks the faster one's.
std::vector<std::string> slowRanks(const Plan &plan,
                                   const std::vector<double> &seconds,
                                   int64_t steps, double factor);

} // namespace dpc::rt

#endif // DPC_RUNTIME_OBSERVE_SLOWRANKS_H
