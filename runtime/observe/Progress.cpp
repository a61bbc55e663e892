#include "runtime/observe/Progress.h"

#include "runtime/base/OneLine.h"
#include "runtime/observe/NumberGuard.h"

#include <cstdio>
#include <unistd.h>

namespace dpc {

Progress::Progress(int64_t steps)
    // The bar is on stderr. Checks stdout as well, because mpirun always gives
    // its processes a terminal for stdout, but not for stderr.
    : steps(steps), hasBar(isatty(STDOUT_FILENO) && isatty(STDERR_FILENO)) {}

Progress::~Progress() { clearBar(); }

Status Progress::openMetrics(const std::vector<std::string> &places,
                             int64_t done) {
  for (const std::string &place : places) {
    DPC_ASSIGN(auto opened, dpc::openMetrics(place, done));
    metrics.push_back(std::move(opened));
  }
  return Status::success();
}

Status Progress::report(const StepReport &step) {
  clearBar();
  std::string line = concat("step ", step.step, "/", steps);
  auto add = [&](const char *before, double value, const char *format,
                 const char *after = "") {
    line += before + spell(value, format) + after;
  };
  if (step.loss)
    add("  loss ", *step.loss, "%.6g");
  if (step.gradNorm)
    add("  grad_norm ", *step.gradNorm, "%.6g");
  if (step.lossScale)
    add("  loss_scale ", *step.lossScale, "%.6g");
  if (step.skipped && *step.skipped != 0)
    line += "  skipped";
  add("  ", step.seconds, "%.4f", " s");
  if (step.tokens > 0)
    add("  ", step.tokensPerSecond(), "%.0f", " tokens/s");
  else if (step.samples > 0)
    add("  ", step.samplesPerSecond(), "%.4g", " samples/s");
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
  for (const std::string &alarm : step.alarms)
    std::fprintf(stderr, "dpc-run: step %lld: %s\n",
                 static_cast<long long>(step.step), alarm.c_str());
  drawBar(step.step);
  for (const std::unique_ptr<Metrics> &one : metrics)
    DPC_TRY(one->write(step));
  return Status::success();
}

Status Progress::report(const EvalReport &evaluation) {
  clearBar();
  std::string line = concat(
      "step ", evaluation.step, ": loss ", spell(evaluation.loss, "%.6g"),
      " over ", evaluation.weighed, " ", evaluation.unit, " of --eval-data");
  for (const auto &[name, value] : evaluation.outputs)
    line += "  " + rt::oneLine(name) + " " + spell(value, "%.6g");
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
  drawBar(evaluation.step);
  return record(evaluation);
}

Status Progress::record(const EvalReport &evaluation) {
  for (const std::unique_ptr<Metrics> &one : metrics)
    DPC_TRY(one->write(evaluation));
  return Status::success();
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
