#include "tools/dpc-run/NumberGuard.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

namespace dpc {

static std::string spell(double value) {
  if (std::isnan(value))
    return "nan"; // printf knows a "-nan"
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

std::string notFinite(const StepReport &step) {
  if (step.skipped.value_or(0) != 0)
    return "";
  if (step.loss && !std::isfinite(*step.loss))
    return "the loss is " + spell(*step.loss);
  if (step.gradNorm && !std::isfinite(*step.gradNorm))
    return "the gradient norm is " + spell(*step.gradNorm);
  return "";
}

std::string SpikeAlarm::look(const char *name, double value) {
  if (factor <= 0 || !std::isfinite(value))
    return "";
  std::string alarm;
  if (last.size() >= kLeast) {
    std::vector<double> sorted(last.begin(), last.end());
    auto middle = sorted.begin() + static_cast<long>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    if (*middle > 0 && value > factor * *middle)
      alarm = std::string(name) + " is " + spell(value) + ", " +
              spell(value / *middle) + " times the median of the last " +
              std::to_string(last.size()) + " steps";
  }
  last.push_back(value);
  if (last.size() > kWindow)
    last.pop_front();
  return alarm;
}

} // namespace dpc
