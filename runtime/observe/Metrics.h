//===- Metrics.h - destinations for the numbers of steps --------*- C++ -*-===//
#ifndef DPC_RUNTIME_OBSERVE_METRICS_H
#define DPC_RUNTIME_OBSERVE_METRICS_H

#include "runtime/base/Status.h"
#include "runtime/observe/StepReport.h"

#include <memory>

namespace dpc {

/// One destination of --metrics.
class Metrics {
public:
  virtual ~Metrics() = default;
  virtual Status write(const StepReport &step) = 0;
  virtual Status write(const EvalReport &evaluation) = 0;
};

/// The meaning of --metrics=KIND:PATH: KIND is "jsonl" (the default),
/// "tensorboard" or "prometheus".
struct MetricsPlace {
  std::string kind, path;
  bool isFolder = false;

  explicit MetricsPlace(const std::string &word);
};

/// Opens the destination `word`. An existing file keeps the lines of steps up
/// to `done`, and the run appends to them; TensorBoard is told to do the same.
Expected<std::unique_ptr<Metrics>> openMetrics(const std::string &word,
                                               int64_t done);

/// Creates `folder` for event files of TensorBoard.
Expected<std::unique_ptr<Metrics>> openTensorBoard(const std::string &folder,
                                                   int64_t done);

} // namespace dpc

#endif // DPC_RUNTIME_OBSERVE_METRICS_H
