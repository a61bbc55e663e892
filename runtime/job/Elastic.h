//===- Elastic.h - --elastic: runs on the available ranks -------*- C++ -*-===//
//
// After a failure, one rank is assumed to be lost. The run continues with one
// rank fewer and a plan that dpc-opt makes from the command of the first plan
// (command.json). Lost ranks are assumed to return after --elastic-wait
// seconds; if a start with the returned ranks fails, this time doubles. With
// --ranks-file, a file contains the number of ranks, and nothing is assumed.
//
// Plans for other numbers of ranks are in the checkpoint folder as plan-N. A
// run makes each plan at most once and does not use the plans of other runs.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_JOB_ELASTIC_H
#define DPC_RUNTIME_JOB_ELASTIC_H

#include "runtime/job/RunOptions.h"
#include "runtime/plan/PlanCommand.h"

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace dpc {

/// The words of `text`, with {ranks} replaced by `ranks`.
std::vector<std::string> wordsFor(const std::string &text, int64_t ranks);

class Elastic {
public:
  /// Without --elastic, all ranks of the plan are always available.
  static Expected<Elastic> open(const RunOptions &options);

  /// A plan that is ready to run.
  struct Start {
    std::string plan; ///< folder; "" if a signal ends the run
    int64_t ranks = 0;
  };
  /// Returns the plan for the available ranks. Waits until there are enough
  /// ranks, and makes the plan if it does not exist. If no plan exists for all
  /// available ranks, uses fewer ranks.
  Expected<Start> next();

  /// Whether the number of available ranks differs from the number in the last
  /// start.
  bool wantsOther();
  /// Called when the last start has ended because of wantsOther().
  void leave();
  /// Called when the last start has failed. `madeProgress`: whether it
  /// completed a step.
  void lose(bool madeProgress);

private:
  using Clock = std::chrono::steady_clock;
  int64_t inFile() const;
  bool awaitRanks();
  Expected<Start> planFor(int64_t count);
  Status makePlan(int64_t count, const std::string &folder) const;

  RunOptions options;
  rt::PlanCommand command; ///< the command of the first plan
  int64_t least = 0, most = 0;
  int64_t full = 0;      ///< the number of ranks without losses
  int64_t ranks = 0;     ///< available ranks for the next start
  int64_t started = 0;   ///< ranks of the last start
  int64_t before = 0;    ///< number of ranks before lost ranks were tried again
  double wait = 0;       ///< seconds until lost ranks are tried again
  bool isTrying = false; ///< whether the last start included lost ranks
  Clock::time_point lastLoss, lastLook;
  std::map<int64_t, Start> plans; ///< by number of available ranks
};

} // namespace dpc

#endif // DPC_RUNTIME_JOB_ELASTIC_H
