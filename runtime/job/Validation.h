//===- Validation.h - --eval-plan and --eval-data ---------------*- C++ -*-===//
#pragma once

#include "runtime/exec/CopyValues.h"
#include "runtime/io/InputSource.h"
#include "runtime/job/OutputMeans.h"
#include "runtime/job/SessionMaker.h"
#include "runtime/observe/Metrics.h"

#include <memory>
#include <utility>

namespace dpc {

/// Computes the means of the loss and of the other outputs (StepOutputs.h) over
/// held-out samples between training steps, by an inference plan of the same
/// model. All processes make all calls.
class Validation {
public:
  Validation(const RunOptions &options, const SessionMaker &sessions)
      : options(options), sessions(sessions) {}

  Status prepare(const rt::Plan &training);
  /// `comms` are for Session::create(). No other session may use them.
  Status start(std::vector<std::unique_ptr<rt::Communicator>> comms,
               const rt::SessionOptions &sessionOptions);
  /// Checks, with the values that `training` starts with, that the losses of
  /// all steps have a mean: the loss must ignore samples that only fill a step
  /// (MaskCheck.h), and must be a mean itself (OutputMeans.h).
  Status checkLoss(const rt::Running &training);
  /// Copies the current values of tensors from `training` and returns the means
  /// over all samples, or over all labels (OutputMeans.h).
  Expected<EvalReport> evaluate(const rt::Running &training);

  /// Says that the loss may be another function than the one that `training`
  /// trains, that it is computed in another precision, or that means depend on
  /// the batch size.
  std::vector<std::string> warnings(const rt::Plan &training) const;

  const rt::Plan &thePlan() const { return plan; }
  rt::InputSource &theInputs() const { return *inputs; }
  /// Not ok after evaluate() could not read its samples: the reason, or
  /// Cancelled if another process could not. All processes know it.
  const Status &readFailure() const { return failure; }
  /// Returns a line for each output that the last evaluation was the first one
  /// to leave out.
  std::vector<std::string> takeOmissions() {
    return std::exchange(omissions, {});
  }
  bool isDue(int64_t step, bool isLast) const {
    return isLast || (options.evalEvery > 0 && step % options.evalEvery == 0);
  }

private:
  Status check(const rt::Plan &training) const;
  Expected<std::vector<const void *>> load(int64_t step);
  Status addSteps();
  Status tell();
  Expected<StepNumbers> numbersOf(int64_t step,
                                  const std::vector<const void *> &arrays);
  /// Finds the outputs whose means depend on the number of samples in a step.
  Status findStepDependent();
  Status checkFiller(int64_t step, const std::vector<const void *> &arrays);

  const RunOptions &options;
  const SessionMaker &sessions;
  rt::Plan plan;
  rt::KernelLibrary kernels;
  std::unique_ptr<rt::InputSource> inputs;
  std::unique_ptr<rt::Session> session;
  int64_t count = 0;
  Status failure; ///< see readFailure()
  std::vector<StepOutput> others;
  /// By `others`: samples that only fill a step change the number of the step.
  std::vector<bool> isOmitted;
  std::vector<std::string> omissions;
  std::optional<OutputMeans> means;
  bool isMaskChecked = false;
  std::vector<std::string> stepDependent; ///< names of outputs in metrics
};

} // namespace dpc
