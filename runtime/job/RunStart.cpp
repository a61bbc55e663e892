#include "runtime/job/RunStart.h"

#include "runtime/base/NameList.h"
#include "runtime/io/SourceFiles.h"
#include "runtime/io/WeightMatch.h"
#include "runtime/io/WeightValues.h"
#include "runtime/job/OutputFiles.h"
#include "runtime/plan/RunSettings.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

namespace dpc {

using namespace rt;

namespace {

/// The bytes of persistent buffers that instructions write. A view, for example
/// a part of a bucket, shares its bytes with the viewed buffer.
class Written {
public:
  explicit Written(const Plan &plan) : plan(plan) {
    for (const Instruction *instruction : instructionsOf(plan))
      for (int buffer : accessesOf(*instruction, plan).writes)
        ranges[rootOf(buffer)].insert(rangeOf(buffer));
  }

  bool hasPartOf(const Tensor &tensor) const {
    for (int buffer : tensor.allBuffers()) {
      auto [begin, end] = rangeOf(buffer);
      auto found = ranges.find(rootOf(buffer));
      if (found == ranges.end())
        continue;
      for (const auto &[first, last] : found->second)
        if (first < end && begin < last)
          return true;
    }
    return false;
  }

private:
  int rootOf(int buffer) const {
    int viewed = plan.buffers[buffer].viewOf;
    return viewed < 0 ? buffer : viewed;
  }
  std::pair<int64_t, int64_t> rangeOf(int id) const {
    const Buffer &buffer = plan.buffers[id];
    return {buffer.offset, buffer.offset + buffer.bytes};
  }

  const Plan &plan;
  /// The ranges of offsets by the buffer that is no view.
  std::map<int, std::set<std::pair<int64_t, int64_t>>> ranges;
};

} // namespace

TrainedWeights trainedWeights(const Plan &plan) {
  TrainedWeights found;
  Written written(plan);
  for (const Tensor &tensor : plan.tensors) {
    bool isChanged = tensor.isWeight() && written.hasPartOf(tensor);
    if (tensor.isWeight() && !isChanged)
      found.kept.push_back(tensor.name);
    else if (isChanged && tensor.role == TensorRole::Parameter)
      found.trained.push_back(tensor.name);
    else if (isChanged)
      found.updated.push_back(tensor.name);
  }
  return found;
}

/// Says what is trained: "training the output 'loss': 5 weights; not trained:
/// 'a'; optimizer adamw, lr 0.001, ..".
static std::string trainingText(const Plan &plan) {
  TrainedWeights weights = trainedWeights(plan);
  size_t trained = weights.trained.size(), updated = weights.updated.size();
  std::string text = "training";
  if (!plan.lossOutput.empty())
    text += " the output '" + oneLine(plan.lossOutput) + "'";
  text += concat(": ", trained, trained == 1 ? " weight" : " weights");
  if (!weights.kept.empty())
    text += "; not trained: " + listed(quoted(weights.kept));
  if (updated > 0)
    text += concat("; the forward pass updates ", updated,
                   updated == 1 ? " buffer" : " buffers");
  std::string settings = describeSettings(plan.settings);
  return settings.empty() ? text : text + "; " + settings;
}

/// Returns where the initial value of a weight comes from, as in
/// InitialValues::fill(): "cls.pt2", "--init=random:1".
static std::string originOf(const Tensor &tensor, const RunOptions &options,
                            const InitChoice &init) {
  bool isChosen = init.kind == InitChoice::Kind::Random ||
                  init.kind == InitChoice::Kind::Zeros;
  if (init.file && findWeight(*init.file, tensor))
    return "--init=" + options.init;
  std::string path =
      tensor.source ? sourcePath(options.plan, tensor.source->file) : "";
  std::error_code code;
  if (tensor.source && !(isChosen && !std::filesystem::exists(path, code)))
    return std::filesystem::path(path).lexically_normal().string();
  if (tensor.init == InitKind::Zeros || tensor.init == InitKind::Value)
    return "constants of the plan";
  return isChosen
             ? "--init=" + options.init
             : concat("random numbers of the plan (seed ", tensor.seed, ")");
}

/// Says where the values of weights come from: "weights: 6 from cls.pt2, 2 from
/// --init=random:1".
static std::string weightsText(const RunOptions &options, const Plan &plan,
                               const InitChoice &init) {
  std::vector<std::pair<std::string, int64_t>> origins;
  for (const Tensor &tensor : plan.tensors) {
    if (!tensor.isWeight())
      continue;
    std::string from = originOf(tensor, options, init);
    auto known =
        std::find_if(origins.begin(), origins.end(),
                     [&](const auto &other) { return other.first == from; });
    if (known == origins.end())
      known = origins.insert(known, {from, 0});
    ++known->second;
  }
  std::string text;
  for (const auto &[from, count] : origins)
    text += concat(text.empty() ? "weights: " : ", ", count, " from ", from);
  std::string choice = "--init=" + options.init;
  bool isUsed = text.ends_with(" from " + choice) ||
                text.find(" from " + choice + ", ") != std::string::npos;
  if (!text.empty() && init.kind != InitChoice::Kind::None && !isUsed)
    text +=
        "; no weight lacks an initial value: " + choice + " changes nothing";
  return oneLine(text);
}

std::vector<std::string> unusualValues(const RunOptions &options,
                                       const Plan &plan, const InitChoice &init,
                                       bool isResumed) {
  if (isResumed || !init.file)
    return {};
  std::vector<std::string> lines = matchWeights(plan, *init.file).remarks();
  std::vector<TrainedWeight> sources = trainedSources(plan, options.plan);
  if (std::vector<std::string> names = lostScales(plan, sources, *init.file);
      !names.empty())
    lines.push_back("--init: " + textOnScales(names, init.file->path()));
  if (haveValuesOf(*init.file, plan, sources))
    lines.push_back("--init: the values in " + oneLine(init.file->path()) +
                    " are those of the model file: are they trained?");
  return lines;
}

static std::string resumeText(const RunOptions &options, const Plan &plan,
                              const std::string &from, int64_t done) {
  if (from.empty())
    return "no checkpoint yet: starting at step 1";
  if (!plan.trains)
    return "the values come from " + from;
  std::string text = "resuming after step " + std::to_string(done);
  if (!options.init.empty())
    text += "\nthe values come from the checkpoint, not from --init";
  if (done >= options.steps)
    text += concat("\nnothing is left to do: the run ends after step ",
                   options.steps);
  return text;
}

std::vector<std::string> firstLines(const RunStart &start) {
  const auto &[options, plan, inputs, init, data, from, trained, skipped,
               done] = start;
  std::vector<std::string> lines;
  bool hasData = options.hasData();
  if (!hasData)
    lines.push_back(concat("the inputs are random numbers, because there is "
                           "neither --data nor ",
                           plan.trains ? "--batches" : "--inputs"));
  if (std::string text = inputs.mapping(); !text.empty())
    lines.push_back(text);
  if (hasData)
    for (const std::string &text : unreadTexts(plan))
      lines.push_back(text);
  if (std::string text = otherArrays(options, plan); !text.empty())
    lines.push_back(text);
  lines.insert(lines.end(), data.lines.begin(), data.lines.end());
  for (const std::string &text : trainedTexts(
           options, plan, data, trained, from.empty() ? options.init : from))
    lines.push_back(text);
  if (done < options.steps)
    for (const std::string &text :
         amountTexts(options, plan, inputs, data.facts, done))
      lines.push_back(text);
  if (plan.trains && done < options.steps)
    for (const std::string &text : rateTexts(plan, options.steps))
      lines.push_back(text);
  if (!plan.trains)
    lines.push_back("the plan is for inference: no weight is trained");
  else if (done < options.steps)
    lines.push_back(trainingText(plan));
  std::string weights = plan.trains && !from.empty() ? "weights: from " + from
                        : from.empty() ? weightsText(options, plan, init)
                                       : "";
  if (!weights.empty() && (!plan.trains || done < options.steps))
    lines.push_back(weights);
  if (!skipped.empty())
    lines.push_back(skipped);
  if (options.resume)
    lines.push_back(resumeText(options, plan, from, done));
  return lines;
}

} // namespace dpc
