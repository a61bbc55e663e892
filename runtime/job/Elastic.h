//===- Elastic.h - --elastic: runs on the available ranks -------*- C++ -*-===//
//
// After a failure, one rank counts as lost. The run continues with one rank
// fewer. dpc-opt makes a plan for this number of ranks from the command of the
// first plan (command.json). After --elastic-wait seconds, the run starts again
// with the lost ranks. If it then fails before its first step, the wait
// doubles. With --ranks-file, a file has the number of available ranks.
//
// New plans are in the checkpoint folder as plan-N, for N ranks. A run makes
// each plan at most once and does not use the plans of other runs.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/job/RunOptions.h"
#include "runtime/plan/PlanCommand.h"

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace dpc {

/// Splits `text` into words and replaces {ranks} by `ranks`.
std::vector<std::string> wordsFor(const std::string &text, int64_t ranks);

class Elastic {
public:
  /// Without --elastic, all ranks of the plan are always available.
  static Expected<Elastic> open(const RunOptions &options);

  struct Start {
    std::string plan; ///< folder; "" if a signal ends the run
    int64_t ranks = 0;
  };
  /// Returns the plan for the available ranks, which dpc-opt makes if it does
  /// not exist. Waits until there are enough ranks. If no plan for all
  /// available ranks can be made, uses fewer ranks.
  Expected<Start> next();

  /// Whether the number of available ranks has changed since the last start.
  bool wantsOther();
  /// Called when the last start has ended because wantsOther() was true.
  void leave();
  /// Called when the last start has failed, after a step if `madeProgress`.
  void lose(bool madeProgress);

private:
  using Clock = std::chrono::steady_clock;
  int64_t inFile() const;
  bool awaitRanks();
  Expected<Start> planFor(int64_t count);
  Status makePlan(int64_t count, const std::string &folder) const;

  RunOptions options;
  rt::PlanCommand command; ///< of the first plan
  int64_t least = 0, most = 0;
  int64_t full = 0;      ///< number of ranks of the first plan
  int64_t ranks = 0;     ///< available
  int64_t started = 0;   ///< of the last start
  int64_t before = 0;    ///< `ranks` before lost ranks were tried again
  double wait = 0;       ///< seconds until lost ranks are tried again
  bool isTrying = false; ///< whether the last start tried lost ranks again
  Clock::time_point lastLoss, lastLook;
  std::map<int64_t, Start> plans; ///< by number of ranks
};

} // namespace dpc
