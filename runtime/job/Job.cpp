#include "runtime/job/Job.h"

#include "runtime/base/OneLine.h"
#include "runtime/base/Wait.h"
#include "runtime/base/WriteFile.h"
#include "runtime/data/Dataset.h"
#include "runtime/exec/Launch.h"
#include "runtime/io/Npy.h"
#include "runtime/io/SourceFiles.h"
#include "runtime/job/MaskCheck.h"
#include "runtime/job/OutputFiles.h"
#include "runtime/job/RankAgreement.h"
#include "runtime/job/RankLoads.h"
#include "runtime/job/RankZero.h"
#include "runtime/job/ReplicaCheck.h"
#include "runtime/job/RunStart.h"
#include "runtime/job/RunSummary.h"
#include "runtime/job/Samples.h"
#include "runtime/job/SaveTrace.h"
#include "runtime/job/SaveWeights.h"
#include "runtime/job/SlowRanks.h"
#include "runtime/job/StartValues.h"
#include "runtime/job/StopSignal.h"
#include "runtime/plan/PlanJson.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

namespace dpc {

using namespace rt;

/// Whether this process is the one of rank 0.
static bool isRankZero(const Plan &plan, bool isDistributed) {
  int first = plan.processes.empty() ? 0 : plan.processes.front();
  return !isDistributed || detectLaunch().rank == first;
}

static Expected<std::unique_ptr<InputSource>>
openInputs(const RunOptions &options, const Plan &plan) {
  if (!options.batches.empty())
    return openNpyInputs(plan, options.batches);
  if (!options.inputs.empty())
    return openNpyInputs(plan, options.inputs, false);
  if (!options.data.empty())
    return openSamples(options, plan);
  return randomInputs(plan, 0);
}

/// Returns the last step, which depends on where resumed data continues. With
/// --steps and --epochs, the run ends with what comes first.
static int64_t lastStep(const RunOptions &options, const Plan &plan,
                        const InputSource &inputs) {
  if (options.steps > 0 && options.epochs > 0)
    return std::min(options.steps, inputs.lastStepOf(options.epochs));
  if (options.steps > 0)
    return options.steps;
  if (inputs.steps() > 0)
    return inputs.lastStepOf(std::max<int64_t>(options.epochs, 1));
  return plan.trains ? 10 : 1;
}

Status Job::prepare() {
  DPC_ASSIGN(plan, readPlan(options.plan));
  if (options.tf32 && options.device != "cuda")
    return Status::invalid("--tf32 is for --device=cuda: CPUs have no TF32 "
                           "GEMMs");
  DPC_TRY(checkIgnoredLabel(options, plan));
  DPC_TRY(sessions.open());
  DPC_ASSIGN(kernels, sessions.loadKernels(plan, options.plan));
  if (options.initPartial && options.init.empty() && !options.resume)
    return Status::invalid("--init-partial is for --init=FILE and --resume");
  if (!options.init.empty()) {
    if (std::error_code code; std::filesystem::is_regular_file(
            options.init + "/" + kManifestFile, code))
      return Status::invalid("--init=", options.init,
                             ": is a checkpoint; --resume=", options.init,
                             " resumes from it");
    DPC_ASSIGN(init, InitChoice::parse(options.init));
    if (options.initPartial && !init.file && !options.resume)
      return Status::invalid("--init-partial is for --init=FILE, not for "
                             "--init=",
                             options.init);
    init.isPartial = options.initPartial;
  }
  if (!plan.trains && !options.checkpoint.empty())
    return Status::invalid("--checkpoint is only for training, but ",
                           options.plan,
                           " is an inference plan; --resume=DIR/step-N uses "
                           "the values of a checkpoint");
  DPC_ASSIGN(inputs, openInputs(options, plan));
  if (!options.evalPlan.empty()) {
    validation = std::make_unique<Validation>(options, sessions);
    DPC_TRY(validation->prepare(plan));
  }
  return Status::success();
}

Status Job::checkFiles() {
  if (!isRankZero(plan, isDistributed))
    return Status::success();
  DPC_TRY(checkOutputs({options, plan, evalPlan(), init}));
  DPC_ASSIGN(data, checkData(options, plan, *inputs,
                             validation ? &validation->theInputs() : nullptr));
  return Status::success();
}

Status Job::compareRanks(Communicator &world) const {
  Expected<std::vector<Setting>> facts = commonFacts(
      options, *inputs, validation ? &validation->theInputs() : nullptr);
  // A process without facts compares nothing, but takes part.
  Status same =
      compareWithRankZero(world, facts ? *facts : std::vector<Setting>());
  return facts ? same : facts.status();
}

SessionOptions Job::sessionOptions() {
  SessionOptions made;
  made.poison = options.poison;
  made.refusesFaults = options.hasData();
  made.overlap = !options.noOverlap;
  made.trace = options.traces();
  made.checkNumbers = options.checkNumbers;
  made.threadsPerRank = options.threads;
  made.timesRanks = options.slowRank > 0;
  made.flightRecord = options.flightRecord;
  made.offloadDir =
      options.offloadDir.empty() ? options.plan : options.offloadDir;
  // A failing process prints its error before it ends the job.
  if (isDistributed)
    made.onFailure = [this](const Status &status) {
      isPrinted = true;
      std::fprintf(stderr, "dpc-run: error: %s\n", status.message().c_str());
    };
  return made;
}

Status Job::start(std::vector<std::unique_ptr<Communicator>> comms,
                  std::vector<std::unique_ptr<Communicator>> evalComms) {
  if (validation)
    DPC_TRY(validation->start(std::move(evalComms), sessionOptions()));
  DPC_ASSIGN(session, sessions
                          .make(plan, options.plan, kernels, std::move(comms),
                                sessionOptions())
                          .in(options.plan));
  if (const Status &status = session->recordStatus(); !status.ok())
    std::fprintf(stderr, "dpc-run: warning: %s; the run has no flight record\n",
                 status.message().c_str());
  checkpoints = std::make_unique<Checkpoints>(options, plan, *session, *inputs,
                                              data.profile.text());
  catchStopSignals(/*announces=*/session->holdsRankZero());
  DPC_ASSIGN(int64_t resumed, checkpoints->begin());
  done = std::max<int64_t>(resumed, 0);
  options.steps = lastStep(options, plan, *inputs);
  bool isResumed = resumed >= 0;
  StartValues values{options, plan, init, *session, *checkpoints};
  DPC_ASSIGN(bool hasChecked, checkLastBatch(values, *inputs, done));
  if (!isResumed || hasChecked)
    DPC_TRY(values.fill());
  if (validation && done < options.steps)
    DPC_TRY(validation->checkLoss({plan, *session}));
  if (session->holdsRankZero())
    for (const std::string &line :
         unusualValues(options, plan, init, isResumed))
      std::printf("%s\n", line.c_str());
  if (session->holdsRankZero() && (isResumed || init.file))
    for (const std::string &change : changedSources(plan, options.plan))
      std::fprintf(stderr,
                   "dpc-run: warning: %s; the run takes no value from it, but "
                   "its program may have changed as well: then compile again\n",
                   change.c_str());
  return Status::success();
}

/// The profile of the data that trained the initial values, or "".
static std::string profileOf(const Checkpoints &checkpoints,
                             const InitChoice &init) {
  if (!checkpoints.from().empty())
    return checkpoints.trainedProfile();
  return init.file ? init.file->profile() : "";
}

Status Job::run() {
  auto save = [&] {
    const bool hasTrained = plan.trains && ran > 0 && !data.profile.isEmpty();
    return saveWeights(options, plan, *session,
                       hasTrained ? data.profile.text()
                                  : profileOf(*checkpoints, init));
  };
  DPC_TRY(runSteps());
  if (!failure.ok()) {
    if (plan.trains && ran > 0)
      DPC_TRY(save());
    return failure;
  }
  RunSummary summary;
  summary.ran = ran;
  summary.step = done + ran;
  summary.wasStopped = endedBySignal != 0;
  summary.writesOutputs = evaluation ? !summary.wasStopped : ran > 0;
  if (summary.hasResults()) {
    DPC_TRY(save());
    if (ran > 0)
      DPC_TRY(saveTrace(options, plan, *session, ran));
    DPC_TRY(saveOutputs());
  }
  if (session->holdsRankZero())
    summary.print(options, plan);
  return Status::success();
}

/// Prints the first failure to write metrics. Failures do not end the run.
void Job::warnOnce(const Status &status) {
  if (status.ok() || hasWarned)
    return;
  hasWarned = true;
  std::fprintf(stderr, "dpc-run: warning: %s; the run continues\n",
               status.message().c_str());
}

static std::optional<double> scalarOf(const HostTensor *value) {
  if (!value || value->elements() != 1)
    return std::nullopt;
  return value->at(0);
}

/// Warns if ranks share processors, which makes measured times longer.
static void warnOfSharedProcessors(size_t ranks) {
  size_t processors = std::thread::hardware_concurrency();
  if (processors == 0 || ranks <= processors)
    return;
  std::printf("%zu ranks share %zu processors here: measured times include "
              "waiting for each other\n",
              ranks, processors);
}

/// Returns the number of updates that the steps before this run skipped, which
/// the tensor that the rate of rank 0 reads counts. Only the process of rank 0
/// gets the number.
static Expected<int64_t> countSkips(const Plan &plan, Session &session) {
  for (const ScalarInput &scalar : plan.scalars)
    for (const Tensor &tensor : plan.tensors) {
      std::vector<int> buffers = tensor.allBuffers();
      if (scalar.name != "lr" || scalar.skips < 0 ||
          std::find(buffers.begin(), buffers.end(), scalar.skips) ==
              buffers.end())
        continue;
      DPC_ASSIGN(HostTensor count, session.gather(tensor));
      return session.holdsRankZero() ? static_cast<int64_t>(count.at(0))
                                     : int64_t{0};
    }
  return int64_t{0};
}

void Job::sayFirstLines() {
  for (const std::string &line : firstLines(
           {options, plan, *inputs, init, data, checkpoints->from(),
            profileOf(*checkpoints, init), checkpoints->skippedText(), done}))
    std::printf("%s\n", line.c_str());
  if (validation)
    for (const std::string &text : validation->warnings(plan))
      std::fprintf(stderr, "dpc-run: warning: %s\n", text.c_str());
  if ((options.traces() || options.slowRank > 0) && !sessions.hasDevice())
    warnOfSharedProcessors(session->ranksHere().size());
}

/// Reads the inputs of a step into `stepInputs`. stoppedBy() follows, which
/// tells all processes whether one has failed, so that none waits in the step.
Status Job::loadInputs(int64_t step) {
  Expected<std::vector<const void *>> arrays = inputs->load(step);
  if (arrays)
    stepInputs = *arrays;
  return arrays ? Status::success() : arrays.status().in(concat("step ", step));
}

/// Returns the failure of this process, or Cancelled if another one has failed.
static Status ownOrCancelled(const Status &own) {
  return own.ok() ? Status::cancelled() : own;
}

Status Job::runSteps() {
  if (done < options.steps) {
    // A signal may have come before the first step.
    Status loaded = loadInputs(done + 1);
    DPC_ASSIGN(int stopped, checkpoints->stoppedBy(loaded.ok()));
    if (stopped == Checkpoints::kCannotGoOn)
      failure = ownOrCancelled(loaded);
    else
      endedBySignal = stopped;
    if (stopped != 0)
      return Status::success();
  }
  DPC_TRY(onRankZero(*session, [&]() -> Status {
    progress.emplace(options.steps);
    DPC_TRY(progress->openMetrics(options.metrics, done));
    sayFirstLines();
    return Status::success();
  }));
  DPC_TRY(startEvaluation());
  DPC_ASSIGN(skips, countSkips(plan, *session));
  for (int64_t step = done + 1; step <= options.steps; ++step) {
    DPC_ASSIGN(StepReport report, runStep(step));
    ++ran;
    Expected<int> stopped = betweenSteps(report);
    if (!stopped)
      return stopped.status().code() == StatusCode::Timeout
                 ? Status::timeout("after step ", step, ": ",
                                   stopped.status().message())
                 : stopped.status();
    if (!failure.ok())
      break;
    if (*stopped == 0 || step == options.steps)
      continue;
    endedBySignal = *stopped;
    break;
  }
  return Status::success();
}

/// Returns the signal that ends the run, or 0. May set `failure`.
Expected<int> Job::betweenSteps(StepReport &report) {
  DPC_TRY(detectStragglers(report));
  DPC_TRY(addRankLoads(plan, *session, report));
  if (progress)
    warnOnce(progress->report(report));
  DPC_TRY(guard(report));
  DPC_TRY(evaluate(report.step));
  bool isEnd = report.step == options.steps;
  Status loaded = isEnd ? Status::success() : loadInputs(report.step + 1);
  Expected<int> stopped = checkpoints->stoppedBy(loaded.ok());
  if (!stopped)
    return stopped;
  if (*stopped == Checkpoints::kCannotGoOn)
    failure = ownOrCancelled(loaded);
  else
    DPC_TRY(validate(report.step, isEnd));
  bool isLast = *stopped != 0 || isEnd || !failure.ok();
  DPC_TRY(checkpoints->afterStep(report.step, isLast));
  return stopped;
}

Status Job::validate(int64_t step, bool isLast) {
  if (!validation || !validation->isDue(step, isLast))
    return Status::success();
  Expected<EvalReport> report = validation->evaluate({plan, *session});
  // All processes know these failures. The run saves its state and ends.
  if (!report && (!isDistributed || !validation->readFailure().ok()))
    failure = report.status();
  if (!report)
    return failure.ok() ? report.status() : Status::success();
  report->step = step;
  if (progress) {
    for (const std::string &line : validation->takeOmissions())
      std::fprintf(stderr, "dpc-run: warning: %s\n", line.c_str());
    warnOnce(progress->report(*report));
  }
  if (!std::isfinite(report->loss) && options.onNan == "stop") {
    failure = Status::invalid(
        "after step ", step, ": the loss of --eval-data=", options.evalData,
        " is ", spell(report->loss), "; --on-nan=go-on continues");
    failureCode = kExitBadNumbers;
  }
  return Status::success();
}

Status Job::detectStragglers(StepReport &report) {
  constexpr int64_t kSteps = 10;
  if (options.slowRank <= 0 || ++timed < kSteps)
    return Status::success();
  DPC_ASSIGN(std::vector<double> seconds, ownSeconds(plan, *session));
  if (session->holdsRankZero())
    for (std::string &line : slowRanks(plan, seconds, timed, options.slowRank))
      report.alarms.push_back(std::move(line));
  timed = 0;
  return Status::success();
}

Status Job::guard(const StepReport &report) {
  if (options.onNan == "stop") {
    std::string why = session->holdsRankZero() ? notFinite(report) : "";
    if (session->holdsRankZero() && why.empty())
      why = skipAlarm.look(plan, report);
    DPC_ASSIGN(bool isBad, session->anywhere(!why.empty()));
    if (isBad)
      return stopAtNan(report.step, why);
  }
  if (options.checkReplicas == 0 || report.step % options.checkReplicas != 0)
    return Status::success();
  Status same = checkReplicas(plan, *session);
  return onRankZero(*session,
                    [&] { return same.in(concat("step ", report.step)); });
}

/// Returns the end of a message about NaN. `input` describes NaN in inputs, and
/// `fault` describes the instruction that wrote the first NaN; "" if unknown.
static std::string sourceOfNan(std::string input, const std::string &fault,
                               bool checksNumbers) {
  if (!input.empty())
    input = "; " + input;
  if (!fault.empty())
    return input + "; it comes from " + fault;
  if (checksNumbers)
    return input + "; no instruction wrote NaN";
  return input + "; --check-numbers names the instruction that wrote it, "
                 "--on-nan=go-on continues";
}

/// "; the learning rate is 10", or "" if the updates read none.
static std::string rateText(const Plan &plan, int64_t update) {
  return std::any_of(plan.scalars.begin(), plan.scalars.end(),
                     [](const ScalarInput &s) { return s.name == "lr"; })
             ? "; the learning rate is " +
                   spell(learningRate(plan.lrSchedule, update))
             : "";
}

Status Job::stopAtNan(int64_t step, const std::string &why) {
  DPC_ASSIGN(std::string fault, session->numberFault());
  // The previous checkpoint is good, but a thread may still be writing it.
  DPC_TRY(checkpoints->finish());
  failureCode = kExitBadNumbers;
  // A step without an update before it, or a late one, has another reason.
  constexpr int64_t kFirstSteps = 20;
  return onRankZero(*session, [&] {
    std::string input = notFiniteInput(plan, stepInputs);
    bool isEarly = input.empty() && done == 0 && ran > 1 && step <= kFirstSteps;
    return Status::invalid("step ", step, ": ", why,
                           isEarly ? rateText(plan, step - skips) : "",
                           sourceOfNan(input, fault, options.checkNumbers));
  });
}

Status Job::startEvaluation() {
  if (plan.trains || options.data.empty())
    return Status::success();
  evaluation.emplace(plan);
  int64_t samples = 0;
  for (int64_t step = done + 1; step <= options.steps; ++step)
    samples += inputs->samplesIn(step);
  bool isOne = options.steps - done <= 1;
  means.emplace(options, plan, std::vector<StepOutput>(),
                isOne ? "" : concat("plan with --global-batch=", samples));
  return onRankZero(*session, [&] {
    return evaluation->start(options.outputs, samples, options.steps - done);
  });
}

Status Job::evaluate(int64_t step) {
  if (!evaluation)
    return Status::success();
  int64_t samples = inputs->samplesIn(step);
  means->add(step, stepInputs, samples, numbersHere(plan, *session));
  return onRankZero(
      *session, [&] { return evaluation->add(session->outputs(), samples); });
}

static int64_t tokensPerStep(const Plan &plan) {
  int64_t tokens = 0;
  for (const Port &port : plan.inputs)
    if (port.dtype == DType::I64 || port.dtype == DType::I32)
      tokens = std::max(tokens, numElements(port.globalShape));
  // An input with one integer per sample has labels, not tokens.
  return tokens > samplesPerStep(plan) ? tokens : 0;
}

/// Adds the learning rate and the other outputs. `skips` updates were skipped
/// before this step. `counted` samples count, or -1 if all do. Call it in the
/// process of rank 0, which has all outputs.
static void reportOutputs(const Plan &plan, const Session &session,
                          int64_t skips, int64_t counted, StepReport &report) {
  if (std::any_of(plan.scalars.begin(), plan.scalars.end(),
                  [](const ScalarInput &s) { return s.name == "lr"; }))
    report.learningRate = learningRate(plan.lrSchedule, report.step - skips);
  std::vector<StepOutput> outputs = stepOutputs(plan);
  std::vector<double> numbers = numbersOf(outputs, session, counted);
  for (size_t i = 0; i < outputs.size(); ++i)
    report.outputs.emplace_back(metricName(plan.outputs[outputs[i].index].name),
                                numbers[i]);
}

Expected<StepReport> Job::runStep(int64_t step) {
  double begin = nowSeconds();
  if (Status stepped = session->step(step, stepInputs); !stepped.ok()) {
    if (stepped.code() == StatusCode::Invalid)
      failureCode = kExitBadNumbers;
    return stepped;
  }
  StepReport report;
  report.step = step;
  int loss = findLoss(plan);
  report.loss = scalarOf(loss < 0 ? nullptr : &session->outputs()[loss]);
  for (size_t i = 0; i < plan.outputs.size(); ++i)
    if (const std::string &name = plan.outputs[i].name;
        isOfUpdate(plan, plan.outputs[i]))
      (name == "grad_norm"    ? report.gradNorm
       : name == "loss_scale" ? report.lossScale
                              : report.skipped) = session->outputs()[i].at(0);
  if (session->holdsRankZero())
    reportOutputs(plan, *session, skips, inputs->samplesIn(step), report);
  skips += report.skipped.value_or(0) != 0;
  report.seconds = nowSeconds() - begin;
  auto look = [&](SpikeAlarm &alarm, const char *name,
                  std::optional<double> value) {
    std::string text = value ? alarm.look(name, *value) : "";
    if (!text.empty())
      report.alarms.push_back(text);
  };
  if (ran == 0 && report.gradNorm == 0.0)
    report.alarms.emplace_back("the gradient of all weights is 0");
  if (std::string text = ran == 0 && report.loss && (init.file || done > 0)
                             ? aboveEqualProbabilities(plan, *report.loss)
                             : "";
      !text.empty())
    report.alarms.push_back(text +
                            ": are the weights trained, and for such data?");
  look(lossAlarm, "the loss", report.loss);
  if (std::string text = plan.trains && done == 0 && report.loss
                             ? growthAlarm.look(*report.loss)
                             : "";
      !text.empty())
    report.alarms.push_back(text + rateText(plan, step - skips));
  look(normAlarm, "the gradient norm", report.gradNorm);
  report.tokens = tokensPerStep(plan);
  report.samples = samplesPerStep(plan);
  return report;
}

/// Prints the mean loss of an evaluation of `samples` samples that ends after
/// `step`, and adds it to the metrics.
static Status reportMean(const OutputMeans &means, int64_t step,
                         int64_t samples, Progress &progress) {
  EvalReport report;
  report.step = step;
  report.samples = samples;
  report.loss = means.loss().value();
  report.weighed = means.loss().weight();
  report.unit = means.unit();
  std::printf("loss %s over %lld %s\n", spell(report.loss, "%.6g").c_str(),
              static_cast<long long>(report.weighed), report.unit);
  return progress.record(report);
}

/// Writes the last results, because the steps by which the loss of an
/// evaluation tells what it is a mean over change what the session holds.
Status Job::saveOutputs() {
  if (means && findLoss(plan) >= 0)
    DPC_TRY(means
                ->tell(
                    *session,
                    [&](int64_t step) {
                      return loadEverywhere(*session, *inputs, step);
                    },
                    [&](int64_t step, const std::vector<const void *> &tried)
                        -> Expected<StepNumbers> {
                      DPC_TRY(session->step(step, tried));
                      return numbersEverywhere(plan, *session);
                    })
                .in("--data=" + options.data));
  return onRankZero(*session, [&]() -> Status {
    // If a signal ended the run, samples are missing, so that there are no
    // outputs.
    if (evaluation && endedBySignal == 0)
      DPC_TRY(evaluation->finish());
    if (evaluation && means->loss().weight() > 0 && findLoss(plan) >= 0) {
      int64_t samples = 0;
      for (int64_t step = done + 1; step <= done + ran; ++step)
        samples += inputs->samplesIn(step);
      warnOnce(reportMean(*means, done + ran, samples, *progress));
    }
    if (evaluation)
      return Status::success();
    // A resumed run that has no steps left has no outputs.
    if (options.outputs.empty() || done >= options.steps)
      return Status::success();
    DPC_TRY(makeFolder(options.outputs).in("--outputs"));
    for (size_t i = 0; i < plan.outputs.size(); ++i)
      if (plan.outputs[i].faults.empty())
        DPC_TRY(writeNpy(npyFile(options.outputs, plan.outputs[i]),
                         session->outputs()[i]));
    return Status::success();
  });
}

} // namespace dpc
