//===- Metrics.h - where the numbers of steps go ----------------*- C++ -*-===//
#ifndef DPC_RUNTIME_OBSERVE_METRICS_H
#define DPC_RUNTIME_OBSERVE_METRICS_H

#include "runtime/base/Status.h"
#include "runtime/observe/StepReport.h"

#include <memory>

namespace dpc {

/// One of --metrics.
class Metrics {
public:
  virtual ~Metrics() = default;
  virtual Status write(const StepReport &step) = 0;
  virtual Status write(const EvalReport &evaluation) = 0;
};

/// What --metrics=KIND:PATH means: "jsonl" (also where no kind is named),
/// "tensorboard" or "prometheus".
struct MetricsPlace {
  std::string kind, path;
  bool isFolder = false;

  explicit MetricsPlace(const std::string &word);
};

/// Opens what `word` names. Of a file that is there, lines of steps up to
/// `done` stay, and the run goes on behind them; TensorBoard is told to.
Expected<std::unique_ptr<Metrics>> openMetrics(const std::string &word,
                                                   int64_t done);

/// Event files of TensorBoard in `folder`, which is made.
Expected<std::unique_ptr<Metrics>>
openTensorBoard(const std::string &folder, int64_t done);

} // namespace dpc

#endif // DPC_RUNTIME_OBSERVE_METRICS_H
