//===- NumberGuard.h - checks of losses -------------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_OBSERVE_NUMBERGUARD_H
#define DPC_RUNTIME_OBSERVE_NUMBERGUARD_H

#include "runtime/observe/Metrics.h"
#include "runtime/plan/Plan.h"

#include <deque>
#include <string>
#include <vector>

namespace dpc {

/// The exit code of a run that ended at a loss that is not finite; the same
/// steps would lead to it again.
inline constexpr int kExitNotFinite = 3;

/// Like printf, but without the sign of nan.
std::string spell(double value, const char *format = "%.4g");

/// "the loss is nan" when a step's loss or gradient norm is not finite. ""
/// otherwise, and for steps that were skipped because of that (--loss-scale).
std::string notFinite(const StepReport &step);

/// "input 'x' holds inf in sample 3" if the inputs of a step, `arrays`, hold
/// NaN or an infinity. NaN takes precedence over inf, and inf over -inf, which
/// masks hold on purpose. "" if all values are finite.
std::string notFiniteInput(const rt::Plan &plan,
                           const std::vector<const void *> &arrays);

/// Detects an endless sequence of skipped steps, where no loss scale helps.
class SkipAlarm {
public:
  /// "all of the last 20 steps were skipped" or similar, or "". An adaptive
  /// scale at its minimum cannot recover (DeepSpeed ends there, too); a fixed
  /// scale may meet a few bad batches.
  std::string look(const rt::Plan &plan, const StepReport &step);

private:
  static constexpr int kMost = 20;
  int inARow = 0;
};

/// Detects values far above those of the last steps.
class SpikeAlarm {
public:
  /// A value above `factor` times the median of the last kWindow values is a
  /// spike. 0 turns the alarm off.
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

#endif // DPC_RUNTIME_OBSERVE_NUMBERGUARD_H
