//===- Metrics.h - metrics per step, and where they are written -*- C++ -*-===//
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dpc {

struct StepReport {
  int64_t step = 0;
  std::optional<double> loss, gradNorm;
  /// Set only with fp16. `skipped` is 1 if the update was skipped.
  std::optional<double> lossScale, skipped;
  /// The rate that this step used.
  std::optional<double> learningRate;
  /// The other outputs of one value, and the means of outputs with one value
  /// per sample, by metricName().
  std::vector<std::pair<std::string, double>> outputs;
  std::vector<std::string> alarms;
  double seconds = 0;
  int64_t tokens = 0;  ///< 0 if no input has tokens
  int64_t samples = 0; ///< 0 if no input has a batch

  double tokensPerSecond() const { return perSecond(tokens); }
  double samplesPerSecond() const { return perSecond(samples); }
  std::vector<std::pair<std::string, double>> numbers() const {
    std::vector<std::pair<std::string, double>> all;
    for (const auto &[name, value] :
         {std::pair("loss", loss), std::pair("grad_norm", gradNorm),
          std::pair("lr", learningRate), std::pair("loss_scale", lossScale),
          std::pair("skipped", skipped)})
      if (value)
        all.emplace_back(name, *value);
    all.insert(all.end(), outputs.begin(), outputs.end());
    all.emplace_back("step_seconds", seconds);
    if (tokens > 0)
      all.emplace_back("tokens_per_second", tokensPerSecond());
    if (samples > 0)
      all.emplace_back("samples_per_second", samplesPerSecond());
    return all;
  }

private:
  double perSecond(int64_t count) const {
    return count > 0 && seconds > 0 ? static_cast<double>(count) / seconds : 0;
  }
};

/// A result of --eval-data.
struct EvalReport {
  int64_t step = 0;
  double loss = 0;
  int64_t samples = 0;
  int64_t weighed = 0; ///< what the loss is a mean over, in `unit`
  const char *unit = "samples";
  /// The means of the other outputs, by evalName().
  std::vector<std::pair<std::string, double>> outputs;

  std::vector<std::pair<std::string, double>> numbers() const {
    std::vector<std::pair<std::string, double>> all = {{"eval_loss", loss}};
    all.insert(all.end(), outputs.begin(), outputs.end());
    return all;
  }
};

/// Returns the name of an output in metrics: its own name, or "output.NAME" if
/// metrics can have another number with this name. Numbers of evaluations begin
/// with "eval_".
std::string metricName(const std::string &output);
/// Returns the name of an output of an evaluation: "eval_NAME", where NAME is
/// metricName(), or "output.NAME" if "eval_NAME" is another number.
std::string evalName(const std::string &output);

class Metrics {
public:
  virtual ~Metrics() = default;
  virtual Status write(const StepReport &step) = 0;
  virtual Status write(const EvalReport &evaluation) = 0;
};

/// Parses KIND:PATH. KIND is "jsonl" (default), "tensorboard" or "prometheus".
struct MetricsPlace {
  std::string kind, path;
  bool isFolder = false;

  explicit MetricsPlace(const std::string &word);
};

/// Opens the destination `word` of --metrics. A resumed run, with `done`
/// completed steps, appends to existing metrics: lines of later steps are
/// removed from a file, and TensorBoard ignores events of later steps.
Expected<std::unique_ptr<Metrics>> openMetrics(const std::string &word,
                                               int64_t done);

Expected<std::unique_ptr<Metrics>> openTensorBoard(const std::string &folder,
                                                   int64_t done);

} // namespace dpc
