//===- Validation.h - --eval-plan and --eval-data ---------------*- C++ -*-===//
#pragma once

#include "runtime/exec/CopyValues.h"
#include "runtime/io/InputSource.h"
#include "runtime/job/LossWeight.h"
#include "runtime/job/SessionMaker.h"

#include <memory>

namespace dpc {

/// Computes the mean loss of held-out samples between training steps, by an
/// inference plan of the same model. All processes make all calls.
class Validation {
public:
  Validation(const RunOptions &options, const SessionMaker &sessions)
      : options(options), sessions(sessions) {}

  Status prepare(const rt::Plan &training);
  /// `comms` are for Session::create(). No other session may use them.
  Status start(std::vector<std::unique_ptr<rt::Communicator>> comms,
               const rt::SessionOptions &sessionOptions);
  /// Checks, with the values of tensors that `training` starts with, that the
  /// losses of all steps have a mean: the loss must ignore samples that only
  /// fill a step (MaskCheck.h), and must be a mean itself (LossWeight.h).
  Status checkLoss(const rt::Running &training);
  /// Copies the current values of tensors from `training` and returns the mean
  /// loss over all samples, or over all labels (LossWeight.h).
  Expected<double> meanLoss(const rt::Running &training);

  /// Returns a warning if the loss may be another function than the one that
  /// `training` trains, otherwise "".
  std::string warning(const rt::Plan &training) const;

  const rt::Plan &thePlan() const { return plan; }
  rt::InputSource &theInputs() const { return *inputs; }
  /// Not ok after meanLoss() could not read its samples: the reason, or
  /// Cancelled if another process could not. All processes know it.
  const Status &readFailure() const { return failure; }
  int64_t samples() const { return count; }
  /// The number of samples or labels that the last mean is over.
  int64_t weighed() const { return weights; }
  const char *unit() const { return weight->unit(); }
  bool isDue(int64_t step, bool isLast) const {
    return isLast || (options.evalEvery > 0 && step % options.evalEvery == 0);
  }

private:
  Status check(const rt::Plan &training) const;
  Expected<std::vector<const void *>> load(int64_t step);
  Status tellWeight();
  Expected<double> sumOfLosses();
  Expected<StepNumbers> numbersOf(int64_t step,
                                  const std::vector<const void *> &arrays);
  Status checkFiller(int64_t step);

  const RunOptions &options;
  const SessionMaker &sessions;
  rt::Plan plan;
  rt::KernelLibrary kernels;
  std::unique_ptr<rt::InputSource> inputs;
  std::unique_ptr<rt::Session> session;
  int64_t count = 0;
  Status failure; ///< see readFailure()
  int64_t weights = 0;
  std::optional<LossWeight> weight; ///< since checkLoss()
};

} // namespace dpc
