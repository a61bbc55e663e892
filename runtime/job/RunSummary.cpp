#include "runtime/job/RunSummary.h"

#include "runtime/checkpoint/CheckpointFolder.h"

#include <cstdio>
#include <string>

namespace dpc {

using namespace rt;

/// Returns "wrote PLACE (WHAT), ..", or "" if nothing was written.
static std::string placesText(const RunOptions &options, const Plan &plan,
                              const RunSummary &summary) {
  bool hasRun = summary.ran > 0;
  std::string text;
  auto add = [&](const char *what, const std::string &place) {
    if (!place.empty())
      text += (text.empty() ? "wrote " : ", ") + place + " (" + what + ")";
  };
  if (hasRun)
    add("checkpoints", options.checkpoint);
  for (const std::string &place : options.metrics)
    add("metrics", place);
  const char *weights =
      plan.trains ? "weights"
                  : "weights as they were read: an inference plan trains none";
  add(weights, options.saveParams);
  add(weights, options.exportDir);
  if (summary.writesOutputs)
    add("outputs", options.outputs);
  if (hasRun)
    add("trace", options.trace);
  return text;
}

/// Says what a run that a signal has ended has saved, and what it has not.
static std::string stopText(const RunOptions &options, const Plan &plan,
                            const RunSummary &summary) {
  int64_t step = summary.step;
  auto text = [&](const char *place, int64_t at, const std::string &rest) {
    return concat("stopped by a signal ", place, " step ", at, " of ",
                  options.steps, rest);
  };
  if (!summary.hasResults())
    return text("before", step + 1,
                "; no step was run, so that no results are written");
  std::string rest;
  bool savesWeights = !options.saveParams.empty() || !options.exportDir.empty();
  if (!options.checkpoint.empty())
    rest += "; " + CheckpointFolder(options.checkpoint).checkpoint(step) +
            " has the state, and --resume continues";
  if (savesWeights)
    rest += "; the parameters are saved";
  if (plan.trains && options.checkpoint.empty())
    rest += savesWeights ? ", but not the optimizer state, because there is no "
                           "--checkpoint=DIR"
                         : "; the parameters are not saved, because there is "
                           "no --checkpoint=DIR, --save-params=FILE or "
                           "--export=DIR";
  if (!plan.trains && !options.data.empty() && !options.outputs.empty())
    rest += "; " + options.outputs +
            " gets no outputs, because they need every sample";
  return text("after", step, rest);
}

void RunSummary::print(const RunOptions &options, const Plan &plan) const {
  if (wasStopped)
    std::printf("%s\n", stopText(options, plan, *this).c_str());
  std::string places = hasResults() ? placesText(options, plan, *this) : "";
  if (!places.empty())
    std::printf("%s\n", places.c_str());
}

} // namespace dpc
