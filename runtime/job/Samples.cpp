#include "runtime/job/Samples.h"

#include "runtime/job/Evaluation.h"

namespace dpc {

using namespace rt;

using Source = std::unique_ptr<InputSource>;

std::optional<IgnoredLabels> labelsToIgnore(const RunOptions &options,
                                            const Plan &plan) {
  if (options.ignoredLabel.empty())
    return usualLabels(plan);
  size_t split = options.ignoredLabel.rfind('=');
  return IgnoredLabels{
      options.ignoredLabel.substr(0, split),
      std::stoll(options.ignoredLabel.substr(split + 1), nullptr, /*base=*/0)};
}

Status checkIgnoredLabel(const RunOptions &options, const Plan &plan) {
  bool isRead = options.lastBatch == "mask" || !options.evalData.empty() ||
                (!plan.trains && !options.data.empty());
  return options.ignoredLabel.empty() || isRead
             ? Status::success()
             : Status::invalid(
                   "--ignored-label=", options.ignoredLabel,
                   ": has no effect without --last-batch=mask",
                   plan.trains ? " and --eval-data; a step of training ignores "
                                 "what the loss of the model ignores"
                               : " and --data");
}

/// Refuses a label of --ignored-label that `plan` does not have.
static Status checkGivenLabel(const RunOptions &options, const Plan &plan) {
  return options.ignoredLabel.empty()
             ? Status::success()
             : checkLabels(plan, *labelsToIgnore(options, plan))
                   .in("--ignored-label=" + options.ignoredLabel);
}

static Status noLabels() {
  return Status::invalid("the plan has neither a single i32 or i64 input whose "
                         "labels the loss ignores, nor one named 'labels' or "
                         "'label'; --ignored-label=NAME=VALUE says which "
                         "labels its loss ignores");
}

static Expected<DataOptions> orderOf(const RunOptions &options,
                                     const Plan &plan) {
  DataOptions order;
  if (options.shuffle && !plan.trains)
    return Status::invalid("--shuffle is for training: an inference takes "
                           "every sample once, in the order of the file");
  order.shuffle = options.shuffle;
  order.last = options.lastBatch == "drop"   ? LastBatch::Drop
               : options.lastBatch == "mask" ? LastBatch::Mask
               : plan.trains                 ? LastBatch::Wrap
                                             : LastBatch::Pad;
  if (order.last != LastBatch::Mask)
    return order;
  std::optional<IgnoredLabels> labels = labelsToIgnore(options, plan);
  if (!labels)
    return noLabels();
  order.ignored = *labels;
  return order;
}

static Expected<Source> openAll(const RunOptions &options, const Plan &plan) {
  DPC_ASSIGN(DataOptions order, orderOf(options, plan));
  DPC_ASSIGN(std::unique_ptr<Dataset> dataset, openDataset(plan, options.data));
  if (order.last == LastBatch::Pad) {
    DPC_TRY(checkGivenLabel(options, plan));
    DPC_TRY(checkEvaluation(plan, dataset->samples()));
  }
  return DatasetInputs::open(plan, std::move(dataset), order);
}

static Expected<Source> openEach(const RunOptions &options, const Plan &plan) {
  DPC_ASSIGN(std::unique_ptr<Dataset> dataset,
             openDataset(plan, options.evalData));
  DataOptions order;
  order.last = LastBatch::Pad;
  int64_t samples = dataset->samples(), perStep = samplesPerStep(plan);
  if (samples % perStep != 0) {
    std::optional<IgnoredLabels> labels = labelsToIgnore(options, plan);
    if (!labels)
      return Status::invalid(samples, " samples do not fill whole steps of ",
                             perStep, ", and ", noLabels().message(),
                             "; or compile the plan of --eval-plan with a "
                             "--global-batch that divides ",
                             samples, ", or give a multiple of ", perStep,
                             " samples");
    order.last = LastBatch::Mask;
    order.ignored = *labels;
  } else {
    DPC_TRY(checkGivenLabel(options, plan));
  }
  return DatasetInputs::open(plan, std::move(dataset), order);
}

/// Puts "OPTION=PATH: " before an error, or "OPTION: " if it has the path.
static Expected<Source> named(const std::string &option,
                              const std::string &path, Expected<Source> made) {
  if (made)
    return made;
  const std::string &message = made.status().message();
  bool hasPath = message.rfind(path, 0) == 0;
  return Status(made.status().code(),
                option + (hasPath ? ": " : "=" + path + ": ") + message);
}

Expected<Source> openSamples(const RunOptions &options, const Plan &plan) {
  return named("--data", options.data, openAll(options, plan));
}

Expected<Source> openHeldOut(const RunOptions &options, const Plan &plan) {
  return named("--eval-data", options.evalData, openEach(options, plan));
}

Expected<std::vector<const void *>>
loadEverywhere(Session &session, InputSource &inputs, int64_t step) {
  Expected<std::vector<const void *>> arrays = inputs.load(step);
  DPC_ASSIGN(bool hasFailed, session.anywhere(!arrays));
  // The process that has failed has the message.
  if (arrays && hasFailed)
    return Status::cancelled();
  return arrays;
}

} // namespace dpc
