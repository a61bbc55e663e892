//===- NumberGuard.h - checks of losses -------------------------*- C++ -*-===//
#pragma once

#include "runtime/observe/Metrics.h"
#include "runtime/plan/Plan.h"

#include <deque>
#include <string>
#include <vector>

namespace dpc {

/// The exit code of a run whose loss was not finite, or whose computed indices
/// were out of range. A restart would not help.
inline constexpr int kExitBadNumbers = 3;

/// Formats a number like printf, but NaN as "nan" without a sign.
std::string spell(double value, const char *format = "%.4g");

/// Returns "the loss is nan" if the loss or the gradient norm of a step is not
/// finite. Returns "" for finite values and for skipped steps (--loss-scale).
std::string notFinite(const StepReport &step);

/// Returns "input 'x' holds inf in sample 3" for the worst value (see
/// badness()) in `arrays`, the inputs of a step; "" if all are finite.
std::string notFiniteInput(const rt::Plan &plan,
                           const std::vector<const void *> &arrays);

/// Returns "the first loss is 14.1, above that of equal probabilities for all
/// 64 classes, 4.159" if the loss of `plan` is a mean cross entropy and far
/// above; otherwise "".
std::string aboveEqualProbabilities(const rt::Plan &plan, double loss);

/// Detects that all further steps would be skipped with any loss scale.
class SkipAlarm {
public:
  /// Returns why the run should end after this step, or "". The reason is a
  /// skipped step at the minimum of an adaptive loss scale (as in DeepSpeed),
  /// or kMost skipped steps in a row with a fixed scale.
  std::string look(const rt::Plan &plan, const StepReport &step);

private:
  static constexpr int kMost = 20;
  int inARow = 0;
};

/// Detects a loss that grows in the first steps of a run, as with a learning
/// rate that is too large.
class GrowthAlarm {
public:
  /// Returns "the loss is 41, 12 times that of the first step", or "". Says it
  /// once. Call it with the loss of each step of a run.
  std::string look(double loss);

private:
  static constexpr int kSteps = 20, kInARow = 2;
  static constexpr double kFactor = 10, kLeast = 1e-3;
  int steps = 0, inARow = 0;
  double first = 0;
};

/// Detects values above `factor` times the median of the last kWindow values.
class SpikeAlarm {
public:
  /// If `factor` is 0, look() always returns "".
  explicit SpikeAlarm(double factor) : factor(factor) {}

  /// Returns "the loss is 9.1, 3.2 times the median of the last 50 steps", or
  /// "". Ignores values that are not finite.
  std::string look(const char *name, double value);

private:
  static constexpr size_t kWindow = 50, kLeast = 10;
  double factor;
  std::deque<double> last;
};

} // namespace dpc
