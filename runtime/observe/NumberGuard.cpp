#include "runtime/observe/NumberGuard.h"

#include "runtime/observe/NumberCheck.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

namespace dpc {

std::string spell(double value, const char *format) {
  if (std::isnan(value))
    return "nan"; // printf would print "-nan"
  char text[64];
  std::snprintf(text, sizeof text, format, value);
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

std::string notFiniteInput(const rt::Plan &plan,
                           const std::vector<const void *> &arrays) {
  int worst = 0;
  std::string found;
  for (size_t i = 0; i < arrays.size(); ++i) {
    const rt::Port &port = plan.inputs[i];
    int64_t count = rt::numElements(port.globalShape);
    for (int64_t at = 0; rt::isFloat(port.dtype) && at < count; ++at) {
      double value = rt::loadAsDouble(arrays[i], port.dtype, at);
      if (rt::badness(value) <= worst)
        continue;
      worst = rt::badness(value);
      found = "input '" + port.name + "' holds " + spell(value);
      if (!port.globalShape.empty())
        found += concat(" in sample ", at / (count / port.globalShape.front()));
    }
  }
  return found;
}

std::string SkipAlarm::look(const rt::Plan &plan, const StepReport &step) {
  inARow = step.skipped.value_or(0) != 0 ? inARow + 1 : 0;
  if (inARow == 0)
    return "";
  bool adapts = std::any_of(
      plan.tensors.begin(), plan.tensors.end(), [](const rt::Tensor &tensor) {
        return tensor.role == rt::TensorRole::State && tensor.slot == "scale";
      });
  if (adapts && step.lossScale.value_or(0) <= 1)
    return "the gradients are not finite, though the loss scale is " +
           spell(*step.lossScale) + ", the smallest";
  if (!adapts && inARow >= kMost)
    return concat("the gradients are not finite, like those of the ", kMost - 1,
                  " steps before; all were skipped");
  return "";
}

std::string aboveEqualProbabilities(const rt::Plan &plan, double loss) {
  // Trained weights are seldom so wrong, even for other data. A few labels may
  // be wrong by chance, and one of them adds much to a mean of few.
  constexpr double kFactor = 1.5, kMore = 1, kMoreOfMany = 0.5;
  constexpr int64_t kMany = 64; // labels
  for (const rt::Port &port : plan.inputs) {
    const double equal = std::log(static_cast<double>(port.limit - port.first));
    const double most = rt::numElements(port.globalShape) >= kMany
                            ? equal + kMoreOfMany
                            : kFactor * equal + kMore;
    if (port.dependence.isMean && std::isfinite(loss) && loss > most)
      return concat("the first loss is ", spell(loss),
                    ", above that of equal probabilities for all ",
                    port.limit - port.first, " classes, ", spell(equal));
  }
  return "";
}

std::string GrowthAlarm::look(double loss) {
  if (steps == 0)
    first = loss;
  if (steps++ >= kSteps || first < kLeast)
    return "";
  // One batch may have a large loss.
  inARow = loss > kFactor * first ? inARow + 1 : 0;
  if (inARow != kInARow || !std::isfinite(loss))
    return "";
  steps = kSteps;
  return concat("the loss is ", spell(loss), ", ", spell(loss / first),
                " times that of the first step");
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
      alarm = concat(name, " is ", spell(value), ", ", spell(value / *middle),
                     " times the median of the last ", last.size(), " steps");
  }
  last.push_back(value);
  if (last.size() > kWindow)
    last.pop_front();
  return alarm;
}

} // namespace dpc
