#include "runtime/observe/Metrics.h"

#include "runtime/base/FileLock.h"
#include "runtime/base/OneLine.h"
#include "runtime/base/WriteFile.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

namespace dpc {

using namespace rt;

/// The names of numbers that are no outputs of the model.
static const std::set<std::string> &ownNames() {
  static const std::set<std::string> names = {
      "step",         "loss",         "grad_norm",
      "lr",           "loss_scale",   "skipped",
      "alarms",       "step_seconds", "tokens_per_second",
      "eval_samples", "eval_loss",    "samples_per_second",
      "steps_total"};
  return names;
}

std::string metricName(const std::string &output) {
  bool isTaken = ownNames().count(output) || output.starts_with("eval_");
  return isTaken ? "output." + output : output;
}

std::string evalName(const std::string &output) {
  std::string name = "eval_" + metricName(output);
  return ownNames().count(name) ? "eval_output." + output : name;
}

static Status cannotWrite(const std::string &path) {
  std::string why = errno ? std::string(": ") + std::strerror(errno) : "";
  return Status::io("--metrics: ", path, " cannot be written", why);
}

MetricsPlace::MetricsPlace(const std::string &word) : kind("jsonl") {
  path = word;
  for (const char *known : {"jsonl", "tensorboard", "prometheus"}) {
    std::string prefix = std::string(known) + ":";
    if (word.rfind(prefix, 0) == 0) {
      kind = known;
      path = word.substr(prefix.size());
    }
  }
  isFolder = kind == "tensorboard";
}

static std::string linesUpTo(const std::string &text, int64_t done) {
  std::istringstream lines(text);
  std::string kept, line;
  while (std::getline(lines, line)) {
    auto record = nlohmann::json::parse(line, nullptr, false);
    bool isBefore = record.is_object() && record.contains("step") &&
                    record["step"].is_number_integer() &&
                    record["step"].get<int64_t>() <= done;
    if (isBefore)
      kept += line + "\n";
  }
  return kept;
}

/// Removes the lines of steps after `done`. The file is replaced atomically.
/// Returns whether it was.
static Expected<bool> keepUpTo(const std::string &path, int64_t done) {
  namespace fs = std::filesystem;
  std::error_code code;
  if (!fs::is_regular_file(path, code))
    return false;
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  std::string kept = linesUpTo(text, done);
  if (kept == text)
    return false;
  // follows links
  std::string own = fs::canonical(path, code).string();
  DPC_TRY(writeDurably(own + ".new", kept).in("--metrics"));
  errno = 0;
  return std::rename((own + ".new").c_str(), own.c_str()) == 0
             ? Expected<bool>(true)
             : cannotWrite(path);
}

namespace {

class JsonLines : public Metrics {
public:
  explicit JsonLines(const std::string &path) : path(path) {}
  Status open(int64_t done);
  Status status() const { return file ? Status::success() : cannotWrite(path); }
  Status write(const StepReport &step) override;
  Status write(const EvalReport &evaluation) override;

private:
  std::string path;
  FileLock lock; ///< two runs would mix their lines
  std::ofstream file;

  Status take();
};

/// Writes the newest step for Prometheus. Replaces the file atomically.
class PrometheusText : public Metrics {
public:
  explicit PrometheusText(const std::string &path) : path(path) {}
  Status write(const StepReport &step) override;
  Status write(const EvalReport &evaluation) override;

private:
  std::string path;
  StepReport newest;
  std::optional<EvalReport> evaluated;

  Status writeNewest() const;
};

} // namespace

/// Locks the file. A pipe or a device may have several writers.
Status JsonLines::take() {
  // After a restart, the previous start may still have the lock.
  constexpr double kPatience = 5;
  std::error_code code;
  bool isFile = std::filesystem::is_regular_file(path, code) ||
                !std::filesystem::exists(path, code);
  return !isFile || lock.take(path, kPatience)
             ? Status::success()
             : Status::invalid("--metrics: ", path,
                               ": another run writes its metrics there; choose "
                               "another file");
}

/// Devices, such as /dev/full, may have no end.
static int64_t linesIn(const std::string &path) {
  std::error_code code;
  if (!std::filesystem::is_regular_file(path, code))
    return 0;
  std::ifstream file(path);
  return std::count(std::istreambuf_iterator<char>(file), {}, '\n');
}

Status JsonLines::open(int64_t done) {
  DPC_TRY(take());
  if (done > 0) {
    DPC_ASSIGN(bool isReplaced, keepUpTo(path, done));
    if (isReplaced)
      DPC_TRY(take());
  }
  if (int64_t lines = done > 0 ? 0 : linesIn(path); lines > 0)
    std::printf("--metrics: %s had %lld lines of another run, which this one "
                "replaces\n",
                rt::oneLine(path).c_str(), static_cast<long long>(lines));
  errno = 0;
  file.open(path, done > 0 ? std::ios::app : std::ios::trunc);
  return status();
}

Status JsonLines::write(const StepReport &step) {
  nlohmann::ordered_json record;
  record["step"] = step.step;
  if (step.loss)
    record["loss"] = *step.loss;
  if (step.gradNorm)
    // becomes null if it is not finite
    record["grad_norm"] = *step.gradNorm;
  if (step.learningRate)
    record["lr"] = *step.learningRate;
  if (step.lossScale)
    record["loss_scale"] = *step.lossScale;
  if (step.skipped)
    record["skipped"] = static_cast<int>(*step.skipped);
  for (const auto &[name, value] : step.outputs)
    record[name] = value;
  if (!step.alarms.empty())
    record["alarms"] = step.alarms;
  record["step_seconds"] = step.seconds;
  record["tokens_per_second"] = step.tokensPerSecond();
  record["samples_per_second"] = step.samplesPerSecond();
  errno = 0;
  // flushes, because the file may be read during the run
  file << record.dump() << std::endl;
  return status();
}

Status JsonLines::write(const EvalReport &evaluation) {
  nlohmann::ordered_json record;
  record["step"] = evaluation.step;
  for (const auto &[name, value] : evaluation.numbers())
    record[name] = value;
  record["eval_samples"] = evaluation.samples;
  errno = 0;
  file << record.dump() << std::endl;
  return status();
}

/// Formats a number for Prometheus, which supports NaN and +Inf.
static std::string prometheusNumber(double value) {
  if (value != value)
    return "NaN";
  if (value - value != 0)
    return value > 0 ? "+Inf" : "-Inf";
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

/// Replaces the characters that names in Prometheus cannot have by "_". Adds
/// "_" to a name that is in `used`, and then adds the name to `used`.
static std::string prometheusName(std::string name,
                                  std::set<std::string> &used) {
  for (char &c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)))
      c = '_';
  while (!used.insert(name).second)
    name += '_';
  return name;
}

Status PrometheusText::write(const StepReport &step) {
  newest = step;
  return writeNewest();
}

Status PrometheusText::write(const EvalReport &evaluation) {
  evaluated = evaluation;
  return writeNewest();
}

Status PrometheusText::writeNewest() const {
  std::ostringstream text;
  text << "# HELP dpc_steps_total Steps of training, or inference, done.\n"
          "# TYPE dpc_steps_total counter\n"
          "dpc_steps_total "
       << newest.step << "\n";
  auto numbers = newest.numbers();
  if (evaluated)
    for (auto &number : evaluated->numbers())
      numbers.push_back(std::move(number));
  std::set<std::string> used = ownNames();
  for (const auto &[original, value] : numbers) {
    std::string name =
        ownNames().count(original) ? original : prometheusName(original, used);
    text << "# HELP dpc_" << name << " Of the newest step.\n# TYPE dpc_" << name
         << " gauge\ndpc_" << name << " " << prometheusNumber(value) << "\n";
  }
  return replaceFile(path, text.str()).in("--metrics");
}

Expected<std::unique_ptr<Metrics>> openMetrics(const std::string &word,
                                               int64_t done) {
  MetricsPlace place(word);
  if (place.kind == "tensorboard")
    return openTensorBoard(place.path, done);
  if (place.kind == "prometheus") {
    DPC_TRY(replaceFile(place.path, "").in("--metrics"));
    return std::unique_ptr<Metrics>(
        std::make_unique<PrometheusText>(place.path));
  }
  auto lines = std::make_unique<JsonLines>(place.path);
  DPC_TRY(lines->open(done));
  return std::unique_ptr<Metrics>(std::move(lines));
}

} // namespace dpc
