#include "runtime/facts/LabelLeak.h"

#include "runtime/base/HostTensor.h"
#include "runtime/base/KeepIf.h"
#include "runtime/base/Status.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>

namespace dpc::rt {

LabelLeak::LabelLeak(DType dtype, int64_t count) : dtype(dtype), equal(count) {
  std::iota(equal.begin(), equal.end(), 0);
  // Narrower types have too few values to tell a line from another curve.
  if (dtype == DType::F32 || dtype == DType::F64)
    for (int64_t i = 0; i < count; ++i)
      lines.push_back({i, 0, 0});
}

static double rounding(double a, double b) {
  return std::numeric_limits<float>::epsilon() *
         std::max(std::fabs(a), std::fabs(b));
}

/// Returns whether the line has the value at the label. The second label gives
/// the slope.
bool LabelLeak::fits(Line &line, double value, double label) const {
  constexpr double kLeastChange = 1024; // in roundings
  if (!hasSlopes && label != firstLabel) {
    line.slope = (value - line.first) / (label - firstLabel);
    return std::fabs(value - line.first) >
           kLeastChange * rounding(value, line.first);
  }
  double ratio =
      hasSlopes ? (label - firstLabel) / (secondLabel - firstLabel) : 0;
  double expected = line.first + line.slope * (label - firstLabel);
  return std::fabs(value - expected) <=
         4 * (1 + std::fabs(ratio)) * rounding(value, line.first);
}

void LabelLeak::add(const std::byte *sample, double label) {
  if (equal.empty() && lines.empty())
    return;
  std::erase_if(equal, [&](int64_t i) {
    return loadAsDouble(sample, dtype, i) != label;
  });
  if (added++ == 0) {
    firstLabel = label;
    for (Line &line : lines)
      line.first = loadAsDouble(sample, dtype, line.element);
    return;
  }
  keepIf(lines, [&](Line &line) {
    return fits(line, loadAsDouble(sample, dtype, line.element), label);
  });
  if (label == firstLabel)
    return;
  if (!hasSlopes)
    secondLabel = label;
  hasThird |= hasSlopes && label != secondLabel;
  hasSlopes = true;
}

std::string LabelLeak::text(const std::string &label) const {
  constexpr int64_t kLeastSamples = 64;
  if (!equal.empty())
    return concat("element ", equal.front(), " of a sample equals ", label);
  if (lines.empty() || (!hasThird && added < kLeastSamples))
    return "";
  const Line &line = lines.front();
  char text[96];
  std::snprintf(text, sizeof text, "%.4g + %.4g * label",
                line.first - line.slope * firstLabel, line.slope);
  return concat("element ", line.element, " of a sample gives ", label,
                " away: it is ", text);
}

} // namespace dpc::rt
