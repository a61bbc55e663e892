//===- NumberGuard.h - losses that cannot be right --------------*- C++ -*-===//
#ifndef DPC_TOOLS_DPC_RUN_NUMBERGUARD_H
#define DPC_TOOLS_DPC_RUN_NUMBERGUARD_H

#include "tools/dpc-run/Progress.h"

#include <deque>
#include <string>

namespace dpc {

/// What a run exits with that ended at such a loss: the same steps would come
/// to it again.
inline constexpr int kExitNotFinite = 3;

/// "the loss is nan" when a step's loss or gradient norm is not finite; ""
/// else, and for steps that were skipped because of that (dynamic loss
/// scaling).
std::string notFinite(const StepReport &step);

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

#endif // DPC_TOOLS_DPC_RUN_NUMBERGUARD_H
