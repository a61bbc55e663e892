//===- Job.h - a run of dpc-run ---------------------------------*- C++ -*-===//
#pragma once

#include "runtime/base/Status.h"
#include "runtime/comm/Communicator.h"
#include "runtime/exec/Session.h"
#include "runtime/io/InitialValues.h"
#include "runtime/io/InputSource.h"
#include "runtime/job/Checkpoints.h"
#include "runtime/job/DataCheck.h"
#include "runtime/job/Evaluation.h"
#include "runtime/job/RunOptions.h"
#include "runtime/job/SessionMaker.h"
#include "runtime/job/Validation.h"
#include "runtime/observe/NumberGuard.h"
#include "runtime/observe/Progress.h"

#include <atomic>
#include <csignal>

namespace dpc {

/// A run of dpc-run: prepare(), start() and run(). After each part, all
/// processes agree whether to continue.
class Job {
public:
  Job(const RunOptions &options, bool isDistributed)
      : options(options), isDistributed(isDistributed),
        sessions(this->options, isDistributed), lossAlarm(options.spike),
        normAlarm(options.spike) {}

  /// Reads the plan and kernels, and opens the data and the initial values.
  Status prepare();
  /// Fails in a process whose files or options are not those of rank 0. Call it
  /// after prepare() has succeeded in all processes.
  Status compareRanks(rt::Communicator &world) const;
  /// Checks the values of the data, and that all result files can be written.
  /// The process of rank 0 does so for all, which have the same data.
  Status checkFiles();
  /// Creates the session with `comms` and fills its tensors. `evalComms` are
  /// for evalPlan(); empty if there is none.
  Status start(std::vector<std::unique_ptr<rt::Communicator>> comms,
               std::vector<std::unique_ptr<rt::Communicator>> evalComms);
  Status run();

  const rt::Plan &thePlan() const { return plan; }
  /// Null without --eval-plan.
  const rt::Plan *evalPlan() const {
    return validation ? &validation->thePlan() : nullptr;
  }
  bool hasPrintedFailure() const { return isPrinted; }
  /// Whether all processes know that the run has failed.
  bool areAgreed() const {
    return !failure.ok() || (checkpoints && checkpoints->areAgreed());
  }
  /// The exit code after run(), or after an earlier part that has failed.
  /// Without a failure, it is 0, or 128 + the signal that ended the run early.
  /// A supervisor sends SIGUSR1 to restart the run. The exit code is then 0,
  /// because after any other exit code, a launcher would kill the remaining
  /// processes, which may still be writing.
  int exitCode(bool hasFailed) const {
    bool isEarly = endedBySignal != 0 && endedBySignal != SIGUSR1;
    return hasFailed ? failureCode : isEarly ? 128 + endedBySignal : 0;
  }

private:
  Status runSteps();
  Status loadInputs(int64_t step);
  void sayFirstLines();
  Expected<StepReport> runStep(int64_t step);
  Status detectStragglers(StepReport &report);
  Status guard(const StepReport &report);
  Status stopAtNan(int64_t step, const std::string &why);
  Status saveOutputs();
  Status startEvaluation();
  Status evaluate(int64_t step);
  rt::SessionOptions sessionOptions();
  Expected<int> betweenSteps(StepReport &report);
  Status validate(int64_t step, bool isLast);
  void warnOnce(const Status &status);

  RunOptions options;
  bool isDistributed;
  bool hasWarned = false;
  std::atomic<bool> isPrinted{false};
  rt::Plan plan;
  rt::KernelLibrary kernels;
  SessionMaker sessions;
  std::unique_ptr<rt::InputSource> inputs;
  rt::InitChoice init;
  std::unique_ptr<rt::Session> session;
  std::unique_ptr<Checkpoints> checkpoints;
  std::optional<Evaluation> evaluation;
  std::optional<OutputMeans> means;       ///< of the evaluation
  std::unique_ptr<Validation> validation; ///< with --eval-plan
  std::optional<Progress> progress;       ///< only in the process of rank 0
  SpikeAlarm lossAlarm, normAlarm;
  SkipAlarm skipAlarm;
  GrowthAlarm growthAlarm;
  DataReport data;                      ///< only in the process of rank 0
  std::vector<const void *> stepInputs; ///< of the last or the next step
  /// Ends the run after the state of the last completed step is written. All
  /// processes know it; where it did not occur, it is Cancelled.
  Status failure;
  int64_t done = 0;  ///< completed steps before this run
  int64_t skips = 0; ///< skipped updates before the next step
  int64_t timed = 0; ///< steps since the last check for stragglers
  int64_t ran = 0;   ///< completed steps of this run
  int endedBySignal = 0;
  int failureCode = 1;
};

} // namespace dpc
