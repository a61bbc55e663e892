//===- Settings.cpp - Training options that a target lacks ----------------===//
#include "codegen/export/Settings.h"

#include <sstream>

namespace dpc::exports {

/// Formats a number without trailing zeros: 0.001, 65536.
static std::string number(double value) {
  std::ostringstream text;
  text.precision(10);
  text << value;
  return text.str();
}

static std::string optimizerText(const OptimizerChoice &optimizer) {
  std::string text = optimizer.name == "sgd" ? "SGD" : "AdamW";
  text += " (lr=" + number(optimizer.lr);
  text += optimizer.name == "sgd"
              ? ", momentum=" + number(optimizer.momentum)
              : ", betas=" + number(optimizer.beta1) + ", " +
                    number(optimizer.beta2) + ", eps=" + number(optimizer.eps);
  return text + ", weight_decay=" + number(optimizer.weightDecay) + ")";
}

static std::string scheduleText(const RateSchedule &schedule) {
  std::string text = "--lr-schedule=" + schedule.kind;
  if (schedule.warmup > 0)
    text += ",warmup=" + std::to_string(schedule.warmup);
  if (schedule.total > 0)
    text += ",total=" + std::to_string(schedule.total);
  if (schedule.min > 0)
    text += ",min=" + number(schedule.min);
  return text;
}

static std::string lossScaleText(const LossScale &scale) {
  return "--loss-scale=" +
         (scale.interval == 0
              ? number(scale.initial)
              : "dynamic,init=" + number(scale.initial) +
                    ",interval=" + std::to_string(scale.interval));
}

std::string notExpressed(const Job &job, const std::set<Setting> &expressed) {
  std::string text;
  auto add = [&](Setting setting, bool isSet, const std::string &words) {
    if (isSet && !expressed.count(setting))
      text += (text.empty() ? "not expressed: " : "; ") + words;
  };
  const OptimizerChoice &optimizer = job.optimizer;
  add(Setting::optimizer, job.trains, optimizerText(optimizer));
  add(Setting::clipping, optimizer.clipGradNorm > 0,
      "--clip-grad-norm=" + number(optimizer.clipGradNorm));
  add(Setting::schedule, !job.schedule.isPlain(), scheduleText(job.schedule));
  add(Setting::lossScale, job.lossScale.isUsed, lossScaleText(job.lossScale));
  std::string names;
  for (const std::string &name : job.frozen)
    names += (names.empty() ? "" : ",") + name;
  add(Setting::frozen, !names.empty(),
      "--frozen=" + names + " (requires_grad is the model's)");
  return text;
}

void remarkOnSettings(Exported &exported, const Job &job,
                      const std::set<Setting> &expressed) {
  std::string text = notExpressed(job, expressed);
  if (!text.empty())
    exported.remarks.push_back(exported.files.front().name + ": " + text);
}

void remarkOnWarmup(Exported &exported, const Job &job,
                    const std::string &whose, int64_t steps) {
  std::string warmup = std::to_string(job.schedule.warmup);
  if (job.schedule.warmup > 0)
    exported.remarks.push_back(
        exported.files.front().name + ": in the first " +
        std::to_string(steps) + " steps, the learning rates of " + whose +
        " differ from dpc's by up to lr / " + warmup +
        " (--lr-schedule=..,warmup=" + warmup + "); later they are equal");
}

std::string commentOnSettings(const Job &job,
                              const std::set<Setting> &expressed) {
  std::string text = notExpressed(job, expressed);
  // Names in the model may contain control characters.
  for (char &c : text)
    if (static_cast<unsigned char>(c) < ' ')
      c = ' ';
  return text.empty() ? "" : "# " + text + "\n";
}

} // namespace dpc::exports
