//===- MaxTextOptimizer.cpp - MaxText's keys of the optimizer -------------===//
//
// The terms are those of maxtext/optimizers/optimizers.py and
// create_learning_rate_schedule in utils/maxtext_utils.py (MaxText 0.2.5).
//
//===----------------------------------------------------------------------===//
#include "codegen/export/MaxText.h"

#include <charconv>
#include <cmath>

namespace dpc::exports {

template <typename Float> static std::string withDot(Float value) {
  char buffer[32];
  auto end = std::to_chars(std::begin(buffer), std::end(buffer), value);
  std::string text(buffer, end.ptr);
  if (text.find('.') == std::string::npos)
    text.insert(std::min(text.find('e'), text.size()), ".0");
  return text;
}

std::string yamlFloat(double value) { return withDot(value); }

std::string yamlFloat(float value) { return withDot(value); }

/// Returns the smallest share of which MaxText, which rounds down, makes
/// `steps` of `all` steps.
static double shareOf(int64_t steps, int64_t all) {
  auto whole = static_cast<double>(all), wanted = static_cast<double>(steps);
  double share = wanted / whole;
  while (whole * share < wanted)
    share = std::nextafter(share, 1);
  return share;
}

/// A cosine reaches its last rate in the last step of the schedule, dpc's in
/// the step after `total`. Without a total, the schedule is longer than any
/// run, because the share of the warmup needs a length.
static void addSchedule(YAML::Node &keys, const Job &job) {
  constexpr int64_t kLong = 10'000'000;
  const RateSchedule &schedule = job.schedule;
  bool isConstant = schedule.kind == "constant";
  bool hasLength = !isConstant || schedule.warmup > 0;
  int64_t steps = isConstant ? kLong : schedule.total + 1;
  keys["lr_schedule_type"] = schedule.kind == "cosine" ? "cosine" : "wsd";
  keys["learning_rate_schedule_steps"] = hasLength ? steps : -1;
  keys["warmup_steps_fraction"] = yamlFloat(shareOf(schedule.warmup, steps));
  double lr = job.optimizer.lr;
  keys["learning_rate_final_fraction"] =
      yamlFloat(isConstant || lr == 0 ? 1.0 : schedule.min / lr);
  if (schedule.kind == "cosine")
    return;
  keys["wsd_decay_style"] = "linear";
  keys["wsd_decay_steps_fraction"] =
      yamlFloat(isConstant ? 0.0 : shareOf(steps - schedule.warmup, steps));
}

MaxTextPart maxTextOptimizer(const Job &job) {
  const OptimizerChoice &optimizer = job.optimizer;
  YAML::Node keys;
  keys["opt_type"] = optimizer.name;
  keys["learning_rate"] = yamlFloat(optimizer.lr);
  if (optimizer.name == "adamw") {
    keys["adam_b1"] = yamlFloat(optimizer.beta1);
    keys["adam_b2"] = yamlFloat(optimizer.beta2);
    keys["adam_eps"] = yamlFloat(optimizer.eps);
    keys["adam_eps_root"] = yamlFloat(0.0);
    keys["adam_weight_decay"] = yamlFloat(optimizer.weightDecay);
    keys["mu_dtype"] = "float32";
  }
  keys["gradient_clipping_threshold"] = yamlFloat(optimizer.clipGradNorm);
  addSchedule(keys, job);
  return {"The optimizer. After learning_rate_schedule_steps, MaxText's rate "
          "is 0",
          keys};
}

} // namespace dpc::exports
