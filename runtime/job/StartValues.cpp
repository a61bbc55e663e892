#include "runtime/job/StartValues.h"

#include "runtime/data/Dataset.h"
#include "runtime/job/MaskCheck.h"
#include "runtime/job/Samples.h"

#include <algorithm>

namespace dpc {

using namespace rt;

/// Runs work() in all processes. Fails in all of them if it fails in one, so
/// that no process waits in a step for a process that has failed.
static Status onAll(Session &session, const std::function<Status()> &work) {
  Status own = work();
  Expected<bool> hasFailed = session.anywhere(!own.ok());
  if (!own.ok() || !hasFailed)
    return own.ok() ? hasFailed.status() : own;
  // The process that has failed has the message.
  return *hasFailed ? Status::cancelled() : own;
}

Status StartValues::fill() const {
  return onAll(session, [&]() -> Status {
    if (!checkpoints.from().empty())
      return checkpoints.restore();
    return session.initialize(InitialValues(plan, options.plan, init));
  });
}

/// Returns the first step after `done` that its samples do not fill, or 0. Only
/// the epoch in which a run resumes may differ from later epochs.
static int64_t unfilledStep(const Plan &plan, const InputSource &inputs,
                            int64_t done) {
  int64_t found = 0;
  for (int64_t epochs = 1, seen = 0; seen < 2 && found == 0; ++epochs) {
    int64_t step = inputs.lastStepOf(epochs);
    if (step <= done)
      continue;
    ++seen;
    if (inputs.samplesIn(step) < samplesPerStep(plan))
      found = step;
  }
  return found;
}

static Expected<StepNumbers>
numbersOf(const StartValues &start, int64_t done,
          const std::vector<const void *> &arrays) {
  Session &session = start.session;
  DPC_TRY(start.fill());
  DPC_TRY(session.step(done + 1, arrays));
  DPC_ASSIGN(StepNumbers numbers, numbersEverywhere(start.plan, session));
  if (!start.plan.trains || session.output("grad_norm"))
    return numbers;
  DPC_TRY(session.step(done + 2, arrays));
  DPC_ASSIGN(StepNumbers next, numbersEverywhere(start.plan, session));
  numbers.gradient = next.loss;
  return numbers;
}

/// Removes the steps of a check from the measurements of the run.
static void forgetSteps(Session &session) {
  session.forgetTrace();
  for (const auto &executor : session.ranksHere())
    executor->takeOwnSeconds();
}

Expected<bool> checkLastBatch(const StartValues &start, InputSource &inputs,
                              int64_t done) {
  const RunOptions &options = start.options;
  const Plan &plan = start.plan;
  if (options.lastBatch != "mask" || options.data.empty() ||
      findLoss(plan) < 0 || done >= options.steps)
    return false;
  int64_t step = unfilledStep(plan, inputs, done);
  if (step == 0 || step > options.steps)
    return false;
  DPC_ASSIGN(std::vector<const void *> arrays,
             loadEverywhere(start.session, inputs, step));
  Expected<std::vector<Status>> checked = checkMask(
      plan, {*labelsToIgnore(options, plan), inputs.samplesIn(step), arrays},
      [&](const std::vector<const void *> &tried) {
        return numbersOf(start, done, tried);
      },
      concat(plan.trains ? "use --last-batch=drop or --last-batch=wrap"
                         : "use --last-batch=drop",
             ", or plan with a --global-batch that divides ",
             inputs.positionAfter(0).samples));
  forgetSteps(start.session);
  // An error of another option, such as --init, names that one.
  if (!checked)
    return checked.status().code() == StatusCode::Cancelled ||
                   checked.status().message().starts_with("--")
               ? checked.status()
               : checked.status().in("--last-batch=mask");
  return true;
}

} // namespace dpc
