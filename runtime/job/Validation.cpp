#include "runtime/job/Validation.h"

#include "runtime/base/OneLine.h"
#include "runtime/checkpoint/Manifest.h"
#include "runtime/data/Dataset.h"
#include "runtime/job/Samples.h"
#include "runtime/plan/PlanJson.h"
#include "runtime/plan/RunSettings.h"

#include <algorithm>

namespace dpc {

using namespace rt;

Status Validation::check(const Plan &training) const {
  if (!training.trains)
    return Status::invalid(options.plan,
                           " is an inference plan; run it with --data instead");
  if (plan.trains)
    return Status::invalid("it is a training plan, expected an inference plan "
                           "of the same model (dpc-opt --infer)");
  if (findLoss(plan) < 0)
    return Status::invalid(
        "its loss is unknown; dpc-opt chooses an output with "
        "--loss-output=NAME, and appends a loss with --loss");
  if (!training.lossOutput.empty() && !plan.lossOutput.empty() &&
      training.lossOutput != plan.lossOutput)
    return Status::invalid(
        "its loss is '", oneLine(plan.lossOutput),
        "', but the training plan trains '", oneLine(training.lossOutput),
        "'; compile both with --loss-output=", oneLine(training.lossOutput),
        ", or with the same --loss");
  if (samplesPerStep(plan) == 0)
    return Status::invalid("its inputs have different first extents, expected "
                           "the number of samples");
  return checkCopy(training, plan);
}

std::string Validation::warning(const Plan &training) const {
  if (hasSameLoss(training, plan,
                  globalBatchOf(training) == globalBatchOf(plan)))
    return "";
  return concat(
      "--eval-plan=", options.evalPlan,
      ": its model computes the loss by another graph than the model "
      "that is trained, so that the two losses may differ in meaning");
}

Status Validation::prepare(const Plan &training) {
  DPC_ASSIGN(plan, readPlan(options.evalPlan).in("--eval-plan"));
  DPC_TRY(check(training).in("--eval-plan=" + options.evalPlan));
  DPC_ASSIGN(kernels, sessions.loadKernels(plan, options.evalPlan));
  DPC_ASSIGN(inputs, openHeldOut(options, plan));
  for (int64_t step = 1; step <= inputs->steps(); ++step)
    count += inputs->samplesIn(step);
  return Status::success();
}

Status Validation::start(std::vector<std::unique_ptr<Communicator>> comms,
                         const SessionOptions &sessionOptions) {
  SessionOptions own = sessionOptions;
  own.trace = own.checkNumbers = own.timesRanks = false;
  own.flightRecord = ""; // only the training session writes records
  DPC_ASSIGN(
      session,
      sessions.make(plan, options.evalPlan, kernels, std::move(comms), own)
          .in(options.evalPlan));
  return Status::success();
}

Expected<double> Validation::meanLoss(const Running &training) {
  DPC_TRY(copyValues(training, {plan, *session}));
  DPC_ASSIGN(double sum, sumOfLosses());
  return sum / static_cast<double>(weights);
}

Status Validation::checkLoss(const Running &training) {
  DPC_TRY(copyValues(training, {plan, *session}));
  weight.emplace(options, plan);
  int64_t last = inputs->steps();
  Status status = inputs->samplesIn(last) < samplesPerStep(plan)
                      ? checkFiller(last)
                      : Status::success();
  if (status.ok())
    status = tellWeight();
  bool hasPath = !failure.ok() || status.code() == StatusCode::Cancelled;
  return hasPath ? status : status.in("--eval-data=" + options.evalData);
}

/// Reads the samples of a step. Fails in all processes if it fails in one.
Expected<std::vector<const void *>> Validation::load(int64_t step) {
  auto arrays = loadEverywhere(*session, *inputs, step);
  if (arrays)
    return arrays;
  failure = arrays.status().code() == StatusCode::Cancelled
                ? arrays.status()
                : arrays.status().in("--eval-data=" + options.evalData);
  return failure;
}

/// Lets the first steps tell what the loss is a mean over.
Status Validation::tellWeight() {
  constexpr int64_t kMaxSteps = 100; // data without ignored labels never tell
  int64_t last = inputs->steps();
  for (int64_t i = 0; i < std::min(last, kMaxSteps); ++i) {
    // The last step may be the only one with ignored labels.
    int64_t step = i == 0 ? last : i;
    DPC_ASSIGN(std::vector<const void *> arrays, load(step));
    DPC_ASSIGN(bool canTell, session->anywhere(weight->canTell(arrays)));
    if (canTell)
      return weight->tell(
          arrays,
          [&](const std::vector<const void *> &tried) {
            return numbersOf(step, tried);
          },
          last > 1 ? concat("plan with --global-batch=", count) : "");
  }
  return Status::success();
}

/// Returns the weighted sum of the losses of all steps. The loss of a step is
/// the mean over the samples, or over the labels, that count.
Expected<double> Validation::sumOfLosses() {
  double sum = 0;
  weights = 0;
  for (int64_t step = 1; step <= inputs->steps(); ++step) {
    DPC_ASSIGN(std::vector<const void *> arrays, load(step));
    DPC_ASSIGN(StepNumbers numbers, numbersOf(step, arrays));
    int64_t share = weight->of(arrays, inputs->samplesIn(step));
    weights += share;
    sum += numbers.loss * static_cast<double>(share);
  }
  return sum;
}

/// Returns the loss of a step in all processes.
Expected<StepNumbers>
Validation::numbersOf(int64_t step, const std::vector<const void *> &arrays) {
  DPC_TRY(session->step(step, arrays));
  return numbersEverywhere(plan, *session);
}

Status Validation::checkFiller(int64_t step) {
  DPC_ASSIGN(std::vector<const void *> arrays, load(step));
  return checkMask(
      plan, {*labelsToIgnore(options, plan), inputs->samplesIn(step), arrays},
      [&](const std::vector<const void *> &tried) {
        return numbersOf(step, tried);
      },
      concat("plan with a --global-batch that divides ", count));
}

} // namespace dpc
