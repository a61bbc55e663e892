//===- Elastic.h - --elastic: a run with the ranks there are ----*- C++ -*-===//
//
// After a failure a rank is taken to be lost, and the run goes on with one
// fewer, by a plan that dpc-opt makes as it made the first (command.json). Lost
// ranks are taken to be back after --elastic-wait seconds; a start with them
// that fails doubles that time. With --ranks-file nothing is guessed: the file
// says how many there are.
//
// Plans of other numbers of ranks lie in the folder of the checkpoints, as
// plan-N. They are of this run only: each is made anew once.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_JOB_ELASTIC_H
#define DPC_RUNTIME_JOB_ELASTIC_H

#include "runtime/plan/PlanCommand.h"
#include "runtime/job/RunOptions.h"

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace dpc {

/// The words of `text`, with the number of ranks in place of {ranks}.
std::vector<std::string> wordsFor(const std::string &text, int64_t ranks);

class Elastic {
public:
  /// Without --elastic: the plan's ranks, for ever.
  static Expected<Elastic> open(const RunOptions &options);

  /// A plan that is ready to run.
  struct Start {
    std::string plan; ///< folder; "": the run is to end, a signal came
    int64_t ranks = 0;
  };
  /// Of the ranks there are; waits until they are enough, and makes the plan
  /// where there is none. Fewer are taken where none can be made.
  Expected<Start> next();

  /// Another number of ranks can run than the last start had.
  bool wantsOther();
  /// The last start was asked to leave because of that.
  void leave();
  /// The last start failed; `cameFar`: after some steps.
  void lose(bool cameFar);

private:
  using Clock = std::chrono::steady_clock;
  int64_t inFile() const;
  bool awaitRanks();
  Expected<Start> planFor(int64_t count);
  Status makePlan(int64_t count, const std::string &folder) const;

  RunOptions options;
  rt::PlanCommand command; ///< that made the first plan
  int64_t least = 0, most = 0;
  int64_t full = 0;  ///< what there is when nothing is lost, as far as is known
  int64_t ranks = 0; ///< there are, for the next start
  int64_t started = 0;   ///< there were, at the last one
  int64_t before = 0;    ///< there were, before lost ones were tried again
  double wait = 0;       ///< seconds until lost ranks are tried again
  bool isTrying = false; ///< the last start was with ranks that had been lost
  Clock::time_point lastLoss, lastLook;
  std::map<int64_t, Start> plans; ///< by number of ranks that there are
};

} // namespace dpc

#endif // DPC_RUNTIME_JOB_ELASTIC_H
