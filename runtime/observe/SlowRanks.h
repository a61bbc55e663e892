//===- SlowRanks.h - detection of stragglers --------------------*- C++ -*-===//
//
// In a step all ranks wait for the slowest one, so the steps of all ranks take
// the same time and do not reveal the straggler. Its time in instructions
// without communication does.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_OBSERVE_SLOWRANKS_H
#define DPC_RUNTIME_OBSERVE_SLOWRANKS_H

#include "runtime/exec/Session.h"

namespace dpc::rt {

/// Every rank's seconds without communication (StepSettings::timesRanks)
/// since the last call. Called by all processes; complete in the process that
/// holds rank 0.
Expected<std::vector<double>> ownSeconds(const Plan &plan, Session &session);

/// A line for every rank whose `seconds` over `steps` steps exceed `factor`
/// times the median of the ranks of its pipeline stage: "rank 2 computes 41 ms
/// a step, 2.1 times the median of the ranks of its stage". For an even number
/// of ranks the lower middle value counts: of two ranks, that of the faster
/// one.
std::vector<std::string> slowRanks(const Plan &plan,
                                   const std::vector<double> &seconds,
                                   int64_t steps, double factor);

} // namespace dpc::rt

#endif // DPC_RUNTIME_OBSERVE_SLOWRANKS_H
