//===- NumberGuard.h - losses that cannot be right --------------*- C++ -*-===//
#ifndef DPC_RUNTIME_JOB_NUMBERGUARD_H
#define DPC_RUNTIME_JOB_NUMBERGUARD_H

#include "runtime/plan/Plan.h"
#include "runtime/observe/StepReport.h"

#include <deque>
#include <string>
#include <vector>

namespace dpc {

/// What a run exits with that ended at such a loss: the same steps would come
/// to it again.
inline constexpr int kExitNotFinite = 3;

/// As printf, but without the sign of nan.
std::string spell(double value, const char *format = "%.4g");

/// "the loss is nan" when a step's loss or gradient norm is not finite; ""
/// else, and for steps that were skipped because of that (--loss-scale).
std::string notFinite(const StepReport &step);

/// "input 'x' holds inf in sample 3" where a step's inputs, `arrays`, have NaN
/// or an infinity: NaN before inf before -inf, which masks hold on purpose. ""
/// where all are finite.
std::string notFiniteInput(const rt::Plan &plan,
                           const std::vector<const void *> &arrays);

/// Notices steps that are skipped without an end: no scale helps there.
class SkipAlarm {
public:
  /// "all of the last 20 steps were skipped" and the like, or "". A scale that
  /// adapts, and is as small as it gets, will not become better (DeepSpeed ends
  /// there, too); a fixed one may meet a few bad batches.
  std::string look(const rt::Plan &plan, const StepReport &step);

private:
  static constexpr int kMost = 20;
  int inARow = 0;
};

/// Notices values far above what the last steps had.
class SpikeAlarm {
public:
  /// A value above `factor` times the median of the last kWindow is a spike.
  /// 0: never.
  explicit SpikeAlarm(double factor) : factor(factor) {}

  /// "the loss is 9.1, 3.2 times the median of the last 50 steps", or "".
  /// Values that are not finite do not count.
  std::string look(const char *name, double value);

private:
  static constexpr size_t kWindow = 50, kLeast = 10;
  double factor;
  std::deque<double> last;
};

} // namespace dpc

#endif // DPC_RUNTIME_JOB_NUMBERGUARD_H
