//===- Progress.h - what dpc-run shows and records --------------*- C++ -*-===//
#ifndef DPC_RUNTIME_OBSERVE_PROGRESS_H
#define DPC_RUNTIME_OBSERVE_PROGRESS_H

#include "runtime/base/Status.h"
#include "runtime/observe/Metrics.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dpc {

/// One line a step on stdout, a bar on stderr when stdout is a terminal, and
/// what --metrics asks for.
class Progress {
public:
  explicit Progress(int64_t steps);
  ~Progress();
  /// What was written of steps up to `done` stays.
  Status openMetrics(const std::vector<std::string> &places,
                         int64_t done = 0);
  Status report(const StepReport &step);
  /// A line of its own, here and in the metrics.
  Status report(const EvalReport &evaluation);

private:
  void drawBar(int64_t done);
  void clearBar();

  int64_t steps;
  bool hasBar;
  std::vector<std::unique_ptr<Metrics>> metrics;
};

} // namespace dpc

#endif // DPC_RUNTIME_OBSERVE_PROGRESS_H
