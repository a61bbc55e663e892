#include "runtime/job/RunStart.h"

#include "runtime/base/OneLine.h"
#include "runtime/plan/RunSettings.h"

namespace dpc {

using namespace rt;

/// Says what is trained: "training the output 'loss': 5 tensors, and 1 stays as
/// it is; optimizer adamw, lr 0.001, ..".
static std::string trainingText(const Plan &plan) {
  int64_t trained = 0, kept = 0;
  for (const Tensor &tensor : plan.tensors) {
    trained += tensor.role == TensorRole::Parameter;
    kept += tensor.role == TensorRole::Buffer;
  }
  std::string text = "training";
  if (!plan.lossOutput.empty())
    text += " the output '" + oneLine(plan.lossOutput) + "'";
  text += concat(": ", trained, trained == 1 ? " weight" : " weights");
  if (kept > 0)
    text += concat(", and ", kept, " that no gradient changes");
  std::string settings = describeSettings(plan.settings);
  return settings.empty() ? text : text + "; " + settings;
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

std::vector<std::string> firstLines(const RunOptions &options, const Plan &plan,
                                    InputSource &inputs, const DataReport &data,
                                    const std::string &from, int64_t done) {
  std::vector<std::string> lines;
  bool hasData = !options.data.empty() || !options.batches.empty() ||
                 !options.inputs.empty();
  if (!hasData)
    lines.push_back(concat("the inputs are random numbers, because there is "
                           "neither --data nor ",
                           plan.trains ? "--batches" : "--inputs"));
  if (std::string text = inputs.mapping(); !text.empty())
    lines.push_back(text);
  if (hasData)
    for (const std::string &text : unreadTexts(plan))
      lines.push_back(text);
  lines.insert(lines.end(), data.lines.begin(), data.lines.end());
  if (done < options.steps)
    for (const std::string &text :
         amountTexts(options, plan, inputs, data.facts, done))
      lines.push_back(text);
  if (plan.trains && done < options.steps)
    for (const std::string &text : rateTexts(plan, options.steps))
      lines.push_back(text);
  if (plan.trains && done < options.steps)
    lines.push_back(trainingText(plan));
  if (options.resume)
    lines.push_back(resumeText(options, plan, from, done));
  return lines;
}

} // namespace dpc
