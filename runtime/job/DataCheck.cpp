#include "runtime/job/DataCheck.h"

#include "runtime/base/NameList.h"
#include "runtime/data/Dataset.h"
#include "runtime/facts/HeldOut.h"
#include "runtime/facts/ProfileDifferences.h"
#include "runtime/plan/RunSettings.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

namespace dpc {

using namespace rt;

/// The option that gives the data of the run, with its value, or "".
static std::string sourceOf(const RunOptions &options) {
  for (const auto &[option, path] : {std::pair("--batches", options.batches),
                                     {"--inputs", options.inputs},
                                     {"--data", options.data}})
    if (!path.empty())
      return concat(option, "=", path);
  return "";
}

/// Returns the names of inputs that the forward pass converts to fp16 or bf16,
/// or from which it computes numbers in one of them, with the type.
static std::set<std::pair<std::string, DType>> inputsInHalf(const Plan &plan) {
  std::map<int, size_t> loaded; // inputs by buffer
  for (const Instruction *instruction : instructionsOf(plan))
    if (const auto *load = std::get_if<LoadInputOp>(&instruction->op))
      loaded[load->buffer] = load->input;
  std::set<std::pair<std::string, DType>> names;
  for (const auto &[name, instructions] : plan.phases) {
    std::optional<PhaseName> phase = PhaseName::parse(name, plan.mesh);
    if (!phase || phase->kind != PhaseKind::Forward)
      continue;
    for (const Instruction &instruction : instructions) {
      Accesses accesses = accessesOf(instruction, plan);
      for (int written : accesses.writes)
        for (int buffer : accesses.reads)
          if (auto input = loaded.find(buffer); input != loaded.end())
            names.emplace(plan.inputs[input->second].name,
                          plan.buffers[written].dtype);
    }
  }
  std::erase_if(names, [](const auto &found) {
    return found.second != DType::F16 && found.second != DType::BF16;
  });
  return names;
}

/// Says which numbers of the inputs the plan cannot represent in the narrower
/// type in which it computes.
static std::vector<std::string> narrowTexts(const Plan &plan,
                                            const DataFacts &facts) {
  std::vector<std::string> texts;
  for (const auto &[name, type] : inputsInHalf(plan))
    for (size_t i = 0; i < facts.inputs.size(); ++i) {
      if (facts.inputs[i].port.name != name)
        continue;
      std::string text =
          type == DType::F16 ? facts.inputs[i].overflowText() : "";
      if (text.empty())
        text = facts.values[i].text(name, type);
      if (!text.empty())
        texts.push_back(text);
    }
  return texts;
}

/// Adds the lines of one source to `lines`, each with `prefix`, and returns its
/// facts. `source` is its option.
static Expected<DataFacts>
checkSource(const Plan &plan, const InputSource &inputs,
            const std::string &source, const std::string &prefix,
            const ScanLimits &limits, bool acceptsNan,
            std::vector<std::string> &lines) {
  DPC_ASSIGN(DataFacts facts, inputs.scan(limits));
  DPC_TRY(facts.check(acceptsNan).in(source));
  if (std::vector<std::string> names = inputs.unread(); !names.empty())
    lines.push_back(source + ": no input reads " + listed(quoted(names)));
  for (const std::string &text : facts.texts())
    lines.push_back(prefix + text);
  std::vector<DType> stored = inputs.storedTypes();
  for (size_t i = 0; i < stored.size() && i < facts.inputs.size(); ++i)
    if (std::string text = facts.inputs[i].wrappedText(stored[i]);
        !text.empty())
      lines.push_back(prefix + text);
  for (const std::string &text : narrowTexts(plan, facts))
    lines.push_back(prefix + text);
  return facts;
}

static std::string stepWithoutLabels(int64_t step, const char *effect) {
  return concat("step ", step, ": all labels are ignored, so that ", effect);
}

/// Whether the plan skips the update of a step whose gradients are not finite.
static bool skipsBadSteps(const Plan &plan) {
  return std::any_of(plan.outputs.begin(), plan.outputs.end(),
                     [](const Port &port) { return port.name == "skipped"; });
}

Expected<DataReport> checkData(const RunOptions &options, const Plan &plan,
                               InputSource &inputs, InputSource *evalInputs) {
  DataReport report;
  bool goesOn = options.onNan != "stop";
  bool acceptsNan = goesOn || !options.inputs.empty() || skipsBadSteps(plan);
  std::vector<std::string> &lines = report.lines;
  ScanLimits limits; // of each of two passes, while other processes wait
  limits.seconds = std::min(limits.seconds, options.timeoutSeconds / 4);
  limits.comparesNumbers = evalInputs != nullptr;
  DPC_ASSIGN(report.facts, checkSource(plan, inputs, sourceOf(options), "",
                                       limits, acceptsNan, lines));
  report.profile = report.facts.profile(sourceOf(options));
  report.profile.graph = settingOf(plan.settings, kEvalGraph);
  if (plan.trains && !options.shuffle)
    for (const std::string &text : report.facts.orderTexts())
      lines.push_back(text +
                      (options.data.empty() ? "" : "; --shuffle mixes them"));
  if (!evalInputs)
    return report;
  std::string source = "--eval-data=" + options.evalData;
  std::string prefix = "--eval-data: ";
  DPC_ASSIGN(DataFacts facts, checkSource(plan, *evalInputs, source, prefix,
                                          limits, goesOn, lines));
  int64_t step = evalInputs->ignoredStep(facts, 1, evalInputs->steps());
  if (step > 0)
    lines.push_back(
        prefix +
        stepWithoutLabels(step, "it does not count in means over labels"));
  std::string rounded = roundedText(report.facts, sourceOf(options), facts);
  if (rounded.empty())
    rounded = nearText(report.facts, sourceOf(options), facts);
  for (const std::string &text :
       {commonText(report.facts, sourceOf(options), facts), rounded,
        passageText(report.facts, sourceOf(options), facts),
        seriesText(report.facts, sourceOf(options), facts)})
    if (!text.empty())
      lines.push_back(text);
  for (const std::string &text : differences(
           facts.profile(source), report.profile, "in " + sourceOf(options)))
    lines.push_back(prefix + text);
  report.heldOut = std::move(facts);
  return report;
}

/// Whether the plan computes the loss by another graph than the plan that
/// trained the values. A resumed training says so itself, and with
/// --init-partial another model is meant.
static bool hasOtherGraph(const RunOptions &options, const Plan &plan,
                          const DataProfile &before) {
  const std::string graph =
      settingOf(plan.settings, plan.trains ? kEvalGraph : kGraph);
  const bool isMeant =
      plan.trains && (options.init.empty() || options.initPartial);
  return !isMeant && !plan.lossOutput.empty() && !graph.empty() &&
         !before.graph.empty() && graph != before.graph;
}

/// Says that the weights were trained with samples that measure them.
static std::string measuredText(const RunOptions &options, const Plan &plan,
                                const DataReport &data,
                                const DataProfile &trained,
                                const std::string &where) {
  if (!plan.trains)
    return plan.lossOutput.empty()
               ? ""
               : trainedText(data.facts, sourceOf(options), trained, where);
  // A run that continues with its data has said the same of them.
  const bool isSaid =
      data.heldOut && 2 * data.heldOut->samples.countIn(data.facts.samples) >=
                          data.heldOut->samples.count();
  return data.heldOut && !isSaid
             ? trainedText(*data.heldOut, "--eval-data", trained, where)
             : "";
}

std::vector<std::string> trainedTexts(const RunOptions &options,
                                      const Plan &plan, const DataReport &data,
                                      const std::string &trained,
                                      const std::string &path) {
  Expected<DataProfile> before = DataProfile::parse(trained, path);
  if (!before)
    return {oneLine(before.status().message()) +
            ": the data is not compared with that of training"};
  const std::string where = concat("in the data that trained ", path, " (",
                                   oneLine(before->source), ")");
  std::vector<std::string> texts = differences(data.profile, *before, where);
  if (std::string text = measuredText(options, plan, data, *before, where);
      !text.empty())
    texts.push_back(text);
  if (hasOtherGraph(options, plan, *before))
    texts.push_back(concat("the plan ", plan.trains ? "trains" : "computes",
                           plan.trains ? "" : " the loss by",
                           " another graph than the one that trained ", path,
                           ": is it the same model?"));
  return texts;
}

static std::string counted(int64_t count, const char *unit) {
  return concat(count, " ", unit, count == 1 ? "" : "s");
}

/// "80 samples, 10 steps an epoch, 0.3 epochs, in the order of the file". The
/// epochs are those from the first sample to the last step; `done` steps of
/// the run are completed, and the next step reads `first`.
static std::string epochsText(const RunOptions &options, const Plan &plan,
                              const InputSource &inputs,
                              const DataPosition &first, int64_t done) {
  bool wraps = plan.trains && options.lastBatch == "wrap";
  auto left = static_cast<double>(options.steps - done);
  auto perStep = static_cast<double>(samplesPerStep(plan));
  double steps = wraps ? static_cast<double>(first.samples) / perStep
                       : static_cast<double>(inputs.steps());
  double epochs =
      static_cast<double>(first.epoch) +
      (static_cast<double>(first.position) / perStep + left) / steps;
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", epochs);
  return concat(counted(first.samples, "sample"), ", ",
                counted(inputs.steps(), "step"), " an epoch, ", text,
                epochs == 1 ? " epoch, " : " epochs, ",
                options.shuffle ? first.order : "in the order of the file");
}

/// Says what completes a step if the data has fewer samples.
static std::string fillerText(const RunOptions &options, const Plan &plan) {
  if (options.lastBatch == "mask")
    return "others whose labels are ignored fill it";
  return plan.trains ? "each step reads some of them again"
                     : "the last one, repeated, fills it and does not count";
}

/// Says how many samples no epoch reads, or "". `done` steps are completed, and
/// the next step reads `first`.
static std::string droppedText(const RunOptions &options, const Plan &plan,
                               const InputSource &inputs,
                               const DataPosition &first, int64_t done) {
  const int64_t dropped = first.samples % samplesPerStep(plan);
  const bool hasEpochs = options.steps - done > inputs.steps();
  if (options.lastBatch != "drop" || options.shuffle || !plan.trains ||
      !hasEpochs || dropped == 0)
    return "";
  return concat("--last-batch=drop: no epoch trains the last ",
                dropped == 1 ? "" : concat(dropped, " "), "of ", first.samples,
                " samples; --shuffle drops others in each epoch");
}

/// Says how many samples have no outputs in --outputs, or "".
static std::string writtenText(const RunOptions &options, const Plan &plan,
                               const InputSource &inputs) {
  if (plan.trains || options.outputs.empty())
    return "";
  auto text = [&](int64_t written, int64_t all, const char *why) {
    return concat("--outputs=", options.outputs, " gets the outputs of ",
                  written, " of ", all, " samples", why);
  };
  const int64_t perStep = samplesPerStep(plan),
                ran = std::min(options.steps, inputs.steps());
  if (!options.data.empty()) {
    const int64_t all = inputs.positionAfter(0).samples;
    return ran * perStep < all
               ? text(ran * perStep, all,
                      ran < inputs.steps()
                          ? ": --steps ends the run before the others"
                          : ": --last-batch=drop leaves the others out")
               : "";
  }
  return !options.batches.empty() && options.steps > 1
             ? text(perStep, ran * perStep,
                    ", those of the last step; with --data, of all")
             : "";
}

std::vector<std::string> amountTexts(const RunOptions &options,
                                     const Plan &plan, InputSource &inputs,
                                     const DataFacts &facts, int64_t done) {
  std::vector<std::string> texts;
  if (!options.data.empty()) {
    DataPosition first = inputs.positionAfter(done);
    texts.push_back(epochsText(options, plan, inputs, first, done));
    if (first.samples < samplesPerStep(plan))
      texts.push_back(concat("a step has ", samplesPerStep(plan),
                             " samples, the data only ", first.samples, ": ",
                             fillerText(options, plan)));
    if (std::string text = droppedText(options, plan, inputs, first, done);
        !text.empty())
      texts.push_back(text);
  }
  if (std::string text = writtenText(options, plan, inputs); !text.empty())
    texts.push_back(text);
  if (options.lastBatch == "mask" && !options.ignoredLabel.empty() &&
      inputs.steps() * samplesPerStep(plan) ==
          inputs.positionAfter(done).samples &&
      options.evalData.empty())
    texts.push_back(concat("--ignored-label=", options.ignoredLabel,
                           " has no effect: the samples fill all steps"));
  if (!options.inputs.empty() && options.steps > 1)
    texts.push_back(concat("all ", options.steps,
                           " steps read the same samples, those of --inputs"));
  if (!options.batches.empty() && options.steps > inputs.steps())
    texts.push_back(inputs.steps() == 1
                        ? std::string("1 batch is repeated")
                        : concat(inputs.steps(), " batches are repeated"));
  int64_t step = inputs.ignoredStep(facts, done + 1, options.steps);
  if (step > 0)
    texts.push_back(stepWithoutLabels(step, "their mean loss is nan"));
  return texts;
}

static std::string spellRate(double rate) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", rate);
  return text;
}

std::vector<std::string> rateTexts(const Plan &plan, int64_t steps) {
  const LrSchedule &schedule = plan.lrSchedule;
  bool readsRate =
      std::any_of(plan.scalars.begin(), plan.scalars.end(),
                  [](const ScalarInput &s) { return s.name == "lr"; });
  if (!readsRate || steps < 1)
    return {};
  if (schedule.lr == 0 &&
      (schedule.kind == LrKind::Constant || schedule.min == 0))
    return {"the learning rate is 0 in all steps"};
  std::string last = spellRate(learningRate(schedule, steps));
  if (steps <= schedule.warmup)
    return {concat(
        "the run ends within the warmup of ", counted(schedule.warmup, "step"),
        ": its last learning rate is ", last, " of ", spellRate(schedule.lr))};
  if (schedule.kind == LrKind::Constant)
    return {};
  if (steps > schedule.total)
    return {concat("the learning rate is ", spellRate(schedule.min),
                   " from step ", schedule.total + 1, " on")};
  // A few steps less than the schedule change little.
  if (steps < schedule.total - schedule.total / 10)
    return {concat("the run ends at step ", steps, " of a schedule of ",
                   counted(schedule.total, "step"),
                   ": its last learning rate is ", last)};
  return {};
}

} // namespace dpc
