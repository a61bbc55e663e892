//===- Progress.h - what dpc-run shows and records --------------*- C++ -*-===//
#ifndef DPC_TOOLS_DPC_RUN_PROGRESS_H
#define DPC_TOOLS_DPC_RUN_PROGRESS_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

namespace dpc {

/// A finished step.
struct StepReport {
  int64_t step = 0;
  std::optional<double> loss, gradNorm;
  std::optional<double> lossScale, skipped; ///< of fp16; 1 for a skipped step
  std::vector<std::string> alarms;
  double seconds = 0;
  int64_t tokens = 0; ///< 0: the model has no integer input
};

/// One line a step on stdout, a bar on stderr when stdout is a terminal, and
/// the metrics file.
class Progress {
public:
  explicit Progress(int64_t steps);
  ~Progress();
  /// Lines of steps up to `done` that are there already stay.
  rt::Status openMetrics(const std::string &path, int64_t done = 0);
  void report(const StepReport &step);
  /// A line of its own, here and in the metrics file.
  void reportEvaluation(int64_t step, double loss, int64_t samples);

private:
  void drawBar(int64_t done);
  void clearBar();

  int64_t steps;
  bool hasBar;
  std::ofstream metrics;
};

} // namespace dpc

#endif // DPC_TOOLS_DPC_RUN_PROGRESS_H
