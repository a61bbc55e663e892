#include "runtime/job/Validation.h"

#include "runtime/base/NameList.h"
#include "runtime/base/OneLine.h"
#include "runtime/checkpoint/Manifest.h"
#include "runtime/data/Dataset.h"
#include "runtime/job/Samples.h"
#include "runtime/plan/PlanJson.h"
#include "runtime/plan/RunSettings.h"

#include <algorithm>
#include <cmath>

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

/// Whether the samples of two inputs have the same shape.
static bool haveEqualSamples(const Port &a, const Port &b) {
  const std::vector<int64_t> &one = a.globalShape, &other = b.globalShape;
  return one.size() == other.size() &&
         (one.empty() ||
          std::equal(one.begin() + 1, one.end(), other.begin() + 1));
}

std::vector<std::string> Validation::warnings(const Plan &training) const {
  std::vector<std::string> texts;
  auto warn = [&](const std::string &text) {
    texts.push_back(concat("--eval-plan=", options.evalPlan, ": ", text));
  };
  if (!hasSameLoss(training, plan,
                   globalBatchOf(training) == globalBatchOf(plan)))
    warn("its model computes the loss by another graph than the model that is "
         "trained, so that the two losses may differ in meaning");
  std::string own = settingOf(plan.settings, kPrecision);
  std::string trained = settingOf(training.settings, kPrecision);
  if (own != trained && !own.empty() && !trained.empty())
    warn(concat("it computes in ", oneLine(own), ", the training plan in ",
                oneLine(trained)));
  std::vector<std::string> shapes;
  for (const Port &input : plan.inputs)
    for (const Port &other : training.inputs)
      if (input.name == other.name && !haveEqualSamples(input, other))
        shapes.push_back(concat("'", oneLine(input.name), "' ",
                                describe(input.dtype, input.globalShape),
                                " (in training ",
                                describe(other.dtype, other.globalShape), ")"));
  if (!shapes.empty())
    warn("it evaluates samples of another shape than the training plan: " +
         listed(shapes));
  if (means->ignoresNoLabel() && !options.ignoredLabel.empty())
    warn(concat("--ignored-label=", options.ignoredLabel,
                " has no effect: the loss counts this label"));
  if (!stepDependent.empty())
    warn(concat("the mean of ", listed(quoted(stepDependent)), " over ",
                inputs->steps(),
                " steps depends on the --global-batch of the "
                "plan: in a step, it is no mean over samples"));
  return texts;
}

Status Validation::prepare(const Plan &training) {
  DPC_ASSIGN(plan, readPlan(options.evalPlan).in("--eval-plan"));
  DPC_TRY(check(training).in("--eval-plan=" + options.evalPlan));
  DPC_ASSIGN(kernels, sessions.loadKernels(plan, options.evalPlan));
  DPC_ASSIGN(inputs, openHeldOut(options, plan));
  for (int64_t step = 1; step <= inputs->steps(); ++step)
    count += inputs->samplesIn(step);
  others = stepOutputs(plan);
  isOmitted.resize(others.size());
  means.emplace(options, plan, others,
                inputs->steps() > 1 ? concat("plan with --global-batch=", count)
                                    : "");
  return Status::success();
}

namespace {

/// Fills only constants. All other values come from the training.
class ConstantValues : public InitialValues {
public:
  ConstantValues(const Plan &plan, const std::string &dir)
      : InitialValues(plan, dir, {}) {}

  Status check(const Plan & /*plan*/) const override {
    return Status::success();
  }
  Status fill(const Tensor &tensor, const Mesh &mesh, int rank,
              void *local) const override {
    return tensor.isConstant() ? InitialValues::fill(tensor, mesh, rank, local)
                               : Status::success();
  }
};

} // namespace

Status Validation::start(std::vector<std::unique_ptr<Communicator>> comms,
                         const SessionOptions &sessionOptions) {
  SessionOptions own = sessionOptions;
  own.trace = own.checkNumbers = own.timesRanks = false;
  own.refusesFaults = true;
  own.flightRecord = ""; // only the training session writes records
  DPC_ASSIGN(
      session,
      sessions.make(plan, options.evalPlan, kernels, std::move(comms), own)
          .in(options.evalPlan));
  return session->initialize(ConstantValues(plan, options.evalPlan));
}

Status Validation::tell() {
  Status status = means->tell(
      *session, [&](int64_t step) { return load(step); },
      [&](int64_t step, const std::vector<const void *> &tried) {
        return numbersOf(step, tried);
      });
  bool hasPath = !failure.ok() || status.code() == StatusCode::Cancelled;
  return hasPath ? status : status.in("--eval-data=" + options.evalData);
}

Status Validation::checkLoss(const Running &training) {
  constexpr int64_t kMost = 100; // an evaluation looks at the others
  DPC_TRY(copyValues(training, {plan, *session}));
  int64_t last = inputs->steps();
  if (inputs->samplesIn(last) < samplesPerStep(plan)) {
    DPC_ASSIGN(std::vector<const void *> arrays, load(last));
    DPC_TRY(checkFiller(last, arrays));
  }
  for (int64_t step = 1; step <= std::min(last, kMost); ++step) {
    DPC_ASSIGN(std::vector<const void *> arrays, load(step));
    means->look(step, arrays);
  }
  DPC_TRY(tell());
  return last > 1 && samplesPerStep(plan) > 1 ? findStepDependent()
                                              : Status::success();
}

Status Validation::findStepDependent() {
  DPC_ASSIGN(std::vector<const void *> arrays, load(1));
  DPC_ASSIGN(
      std::vector<bool> depend,
      means->dependOnSteps(arrays, [&](const std::vector<const void *> &tried) {
        return numbersOf(1, tried);
      }));
  for (size_t i = 0; i < depend.size(); ++i)
    if (depend[i] && (i == 0 || !isOmitted[i - 1]))
      stepDependent.push_back(
          i == 0 ? "eval_loss"
                 : evalName(plan.outputs[others[i - 1].index].name));
  return Status::success();
}

Expected<EvalReport> Validation::evaluate(const Running &training) {
  DPC_TRY(copyValues(training, {plan, *session}));
  means->restart();
  DPC_TRY(addSteps());
  DPC_TRY(tell());
  EvalReport report;
  report.loss = means->loss().value();
  report.samples = count;
  report.weighed = means->loss().weight();
  report.unit = means->unit();
  for (size_t i = 0; i < others.size(); ++i)
    if (!isOmitted[i])
      report.outputs.emplace_back(evalName(plan.outputs[others[i].index].name),
                                  means->other(i).value());
  return report;
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

Status Validation::addSteps() {
  for (int64_t step = 1; step <= inputs->steps(); ++step) {
    DPC_ASSIGN(std::vector<const void *> arrays, load(step));
    bool isUnfilled = inputs->samplesIn(step) < samplesPerStep(plan);
    if (isUnfilled && !isMaskChecked)
      DPC_TRY(checkFiller(step, arrays));
    DPC_ASSIGN(StepNumbers numbers, numbersOf(step, arrays));
    // NaN proves nothing.
    isMaskChecked |= isUnfilled && std::isfinite(numbers.loss);
    means->add(step, arrays, inputs->samplesIn(step), numbers);
  }
  return Status::success();
}

/// Returns the numbers of a step in all processes.
Expected<StepNumbers>
Validation::numbersOf(int64_t step, const std::vector<const void *> &arrays) {
  DPC_TRY(session->step(step, arrays));
  return numbersEverywhere(plan, *session, others, inputs->samplesIn(step));
}

Status Validation::checkFiller(int64_t step,
                               const std::vector<const void *> &arrays) {
  std::string source = "--eval-data=" + options.evalData;
  Expected<std::vector<Status>> checked = checkMask(
      plan, {*labelsToIgnore(options, plan), inputs->samplesIn(step), arrays},
      [&](const std::vector<const void *> &tried) {
        return numbersOf(step, tried);
      },
      concat("compile the plan of --eval-plan with a --global-batch that "
             "divides ",
             count, ", or give a multiple of ", samplesPerStep(plan),
             " samples"),
      others);
  if (!checked)
    return checked.status().code() == StatusCode::Cancelled
               ? checked.status()
               : checked.status().in(source);
  for (size_t i = 0; i < others.size(); ++i) {
    bool wasOmitted = isOmitted[i];
    isOmitted[i] = !(*checked)[i].ok();
    if (isOmitted[i] && !wasOmitted)
      omissions.push_back(concat(
          source, ": ", oneLine(evalName(plan.outputs[others[i].index].name)),
          " is left out: ", (*checked)[i].message()));
  }
  return Status::success();
}

} // namespace dpc
