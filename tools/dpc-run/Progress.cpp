#include "tools/dpc-run/Progress.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace dpc {

Progress::Progress(int64_t steps)
    // mpirun gives its processes a terminal for stdout whatever it writes to,
    // but not for stderr, where the bar is drawn.
    : steps(steps), hasBar(isatty(STDOUT_FILENO) && isatty(STDERR_FILENO)) {}

Progress::~Progress() { clearBar(); }

/// The lines of a metrics file that a run which goes on after `done` keeps.
static std::string linesUpTo(const std::string &path, int64_t done) {
  std::ifstream file(path);
  std::string kept, line;
  while (done > 0 && std::getline(file, line)) {
    auto record = nlohmann::json::parse(line, nullptr, false);
    bool isBefore = record.is_object() && record.contains("step") &&
                    record["step"].is_number_integer() &&
                    record["step"].get<int64_t>() <= done;
    if (isBefore)
      kept += line + "\n";
  }
  return kept;
}

rt::Status Progress::openMetrics(const std::string &path, int64_t done) {
  std::string kept = linesUpTo(path, done);
  metrics.open(path);
  metrics << kept << std::flush;
  return metrics ? rt::Status::success()
                 : rt::Status::io("--metrics: " + path + " cannot be written");
}

void Progress::report(const StepReport &step) {
  double rate = step.tokens > 0 && step.seconds > 0
                    ? static_cast<double>(step.tokens) / step.seconds
                    : 0;
  clearBar();
  std::string line =
      "step " + std::to_string(step.step) + "/" + std::to_string(steps);
  auto add = [&](const char *format, double value) {
    char text[64];
    std::snprintf(text, sizeof text, format, value);
    line += text;
  };
  if (step.loss)
    add("  loss %.6g", *step.loss);
  if (step.gradNorm)
    add("  grad_norm %.6g", *step.gradNorm);
  if (step.lossScale)
    add("  loss_scale %.6g", *step.lossScale);
  if (step.skipped && *step.skipped != 0)
    line += "  skipped";
  add("  %.4f s", step.seconds);
  if (step.tokens > 0)
    add("  %.0f tokens/s", rate);
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
  for (const std::string &alarm : step.alarms)
    std::fprintf(stderr, "dpc-run: step %lld: %s\n",
                 static_cast<long long>(step.step), alarm.c_str());
  drawBar(step.step);
  if (!metrics.is_open())
    return;
  nlohmann::ordered_json record;
  record["step"] = step.step;
  if (step.loss)
    record["loss"] = *step.loss;
  if (step.gradNorm)
    record["grad_norm"] = *step.gradNorm; // null when it is not finite
  if (step.lossScale)
    record["loss_scale"] = *step.lossScale;
  if (step.skipped)
    record["skipped"] = static_cast<int>(*step.skipped);
  if (!step.alarms.empty())
    record["alarms"] = step.alarms;
  record["step_seconds"] = step.seconds;
  record["tokens_per_second"] = rate;
  metrics << record.dump() << std::endl; // a follower sees each step at once
}

void Progress::reportEvaluation(int64_t step, double loss, int64_t samples) {
  clearBar();
  std::printf("step %lld: loss %.6g over %lld samples of --eval-data\n",
              static_cast<long long>(step), loss,
              static_cast<long long>(samples));
  std::fflush(stdout);
  drawBar(step);
  if (!metrics.is_open())
    return;
  nlohmann::ordered_json record;
  record["step"] = step;
  record["eval_loss"] = loss; // null when it is not finite
  record["eval_samples"] = samples;
  metrics << record.dump() << std::endl;
}

void Progress::drawBar(int64_t done) {
  if (!hasBar || steps <= 0)
    return;
  constexpr int64_t width = 40;
  int64_t filled = width * done / steps;
  std::string bar(static_cast<size_t>(filled), '#');
  bar.resize(width, '.');
  std::fprintf(stderr, "[%s] %lld%%", bar.c_str(),
               static_cast<long long>(100 * done / steps));
  std::fflush(stderr);
}

void Progress::clearBar() {
  if (hasBar)
    std::fprintf(stderr, "\r\033[K");
}

} // namespace dpc
