//===- Progress.h - terminal output and metrics of dpc-run ------*- C++ -*-===//
#pragma once

#include "runtime/base/Status.h"
#include "runtime/observe/Metrics.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dpc {

/// Prints a line per step to stdout, draws a bar on stderr in a terminal, and
/// writes to the destinations of --metrics.
class Progress {
public:
  explicit Progress(int64_t steps);
  ~Progress();
  /// See dpc::openMetrics().
  Status openMetrics(const std::vector<std::string> &places, int64_t done = 0);
  Status report(const StepReport &step);
  Status report(const EvalReport &evaluation);
  /// Only writes to the destinations of --metrics.
  Status record(const EvalReport &evaluation);

private:
  void drawBar(int64_t done);
  void clearBar();

  int64_t steps;
  bool hasBar;
  std::vector<std::unique_ptr<Metrics>> metrics;
};

} // namespace dpc
