//===- Job.h - one run of dpc-run -------------------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_JOB_JOB_H
#define DPC_RUNTIME_JOB_JOB_H

#include "runtime/base/Status.h"
#include "runtime/comm/Communicator.h"
#include "runtime/io/InitialValues.h"
#include "runtime/io/InputSource.h"
#include "runtime/exec/Session.h"
#include "runtime/job/Checkpoints.h"
#include "runtime/job/Evaluation.h"
#include "runtime/job/NumberGuard.h"
#include "runtime/job/RunOptions.h"
#include "runtime/observe/Progress.h"
#include "runtime/job/SessionMaker.h"
#include "runtime/job/Validation.h"

#include <atomic>
#include <csignal>

namespace dpc {

/// The run in three parts, so that processes can agree between them whether
/// to go on.
class Job {
public:
  Job(const RunOptions &options, bool isDistributed)
      : options(options), isDistributed(isDistributed),
        sessions(this->options, isDistributed), lossAlarm(options.spike),
        normAlarm(options.spike) {}

  /// Reads and checks the plan, kernels, data and initial values, and whether
  /// the files that are asked for can be written.
  Status prepare();
  /// Makes the session and fills its tensors. `comms` as for Session;
  /// `evalComms` are the same for evalPlan(), none without it.
  Status start(std::vector<std::unique_ptr<rt::Communicator>> comms,
                   std::vector<std::unique_ptr<rt::Communicator>> evalComms);
  /// All steps and what is written after them.
  Status run();

  const rt::Plan &thePlan() const { return plan; }
  /// Of --eval-plan; nullptr without it.
  const rt::Plan *evalPlan() const {
    return validation ? &validation->thePlan() : nullptr;
  }
  /// Whether a rank's failure was printed when it happened.
  bool spoke() const { return hasSpoken; }
  /// Whether all processes know that the run has failed in one of them.
  bool areAgreed() const { return checkpoints && checkpoints->areAgreed(); }
  /// What the process exits with when run() was well, and when it failed.
  /// A supervisor that asks by SIGUSR1 goes on later: that is no failure, for
  /// which launchers would kill the processes that still write.
  int exitCode() const {
    bool isEarly = endedBySignal != 0 && endedBySignal != SIGUSR1;
    return isEarly ? 128 + endedBySignal : 0;
  }
  int exitCodeOfFailure() const { return failureCode; }

private:
  Status openInputs();
  int64_t lastStep() const;
  Status checkMask();
  Status checkOutputs();
  std::string whereItGoesOn() const;
  Status runSteps();
  Expected<StepReport> runStep(int64_t step);
  Status lookForSlowRanks(StepReport &report);
  Status guard(const StepReport &report);
  Status stopAtNan(int64_t step, const std::string &why);
  std::string sourceOfNan(const std::string &fault) const;
  Status saveOutputs();
  Status statusOfRankZero(const Status &mine);
  Status startEvaluation();
  Status evaluate(int64_t step);
  Status finishEvaluation();
  rt::SessionOptions sessionOptions();
  Expected<int> betweenSteps(StepReport &report,
                                 std::optional<Progress> &progress);
  Status validate(int64_t step, bool isLast, Progress *progress);
  bool traces() const { return !options.trace.empty() || options.profile; }
  std::string untracedSteps() const;
  Status saveTrace();
  void sayWhatWasWritten() const;
  void sayWhatIsShared() const;
  int64_t tokensPerStep() const;
  void warnOnce(const Status &status);

  RunOptions options;
  bool isDistributed;
  bool hasWarned = false;
  std::atomic<bool> hasSpoken{false};
  rt::Plan plan;
  rt::KernelLibrary kernels;
  SessionMaker sessions;
  std::unique_ptr<rt::InputSource> inputs;
  rt::InitChoice init;
  std::unique_ptr<rt::Session> session;
  std::unique_ptr<Checkpoints> checkpoints;
  std::optional<Evaluation> evaluation;
  std::unique_ptr<Validation> validation; ///< with --eval-plan
  SpikeAlarm lossAlarm, normAlarm;
  SkipAlarm skipAlarm;
  std::vector<const void *> stepInputs; ///< of the last step
  int64_t done = 0;                     ///< steps before this run
  int64_t timed = 0;     ///< steps of which own seconds were not yet asked
  int64_t ran = 0;       ///< steps, by this run; a signal may end it early
  int endedBySignal = 0; ///< the signal that ended the run early
  int failureCode = 1;
};

} // namespace dpc

#endif // DPC_RUNTIME_JOB_JOB_H
