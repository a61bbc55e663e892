//===- NumberGuard.h - checks of losses -------------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_OBSERVE_NUMBERGUARD_H
#define DPC_RUNTIME_OBSERVE_NUMBERGUARD_H

#include "runtime/observe/Metrics.h"
#include "runtime/plan/Plan.h"

#include <deque>
#include <string>
#include <vector>

namespace dpc {

/// The exit code of a run whose loss was not finite. A restart would not help.
inline constexpr int kExitNotFinite = 3;

/// Formats a number like printf; NaN is always "nan".
std::string spell(double value, const char *format = "%.4g");

/// "the loss is nan" if a step's loss or gradient norm is not finite; ""
/// otherwise and for skipped steps (--loss-scale).
std::string notFinite(const StepReport &step);

/// "input 'x' holds inf in sample 3" for the first of the most severe values
/// (see badness()) in `arrays`, the inputs of a step; "" if all are finite.
std::string notFiniteInput(const rt::Plan &plan,
                           const std::vector<const void *> &arrays);

/// Detects that all further steps would be skipped, because no loss scale
/// helps.
class SkipAlarm {
public:
  /// Returns why the run should end after this step, or "". An adaptive loss
  /// scale cannot recover at its minimum (DeepSpeed also ends the run then).
  /// With a fixed scale, kMost steps in a row may be skipped.
  std::string look(const rt::Plan &plan, const StepReport &step);

private:
  static constexpr int kMost = 20;
  int inARow = 0;
};

/// Detects values that are far above the values of the last steps.
class SpikeAlarm {
public:
  /// A spike is a value above `factor` times the median of the last kWindow
  /// values. 0 turns the alarm off.
  explicit SpikeAlarm(double factor) : factor(factor) {}

  /// "the loss is 9.1, 3.2 times the median of the last 50 steps", or "".
  /// Values that are not finite are ignored.
  std::string look(const char *name, double value);

private:
  static constexpr size_t kWindow = 50, kLeast = 10;
  double factor;
  std::deque<double> last;
};

} // namespace dpc

#endif // DPC_RUNTIME_OBSERVE_NUMBERGUARD_H
