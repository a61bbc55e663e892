#include "runtime/facts/LabelOrder.h"

#include "runtime/base/Percent.h"
#include "runtime/base/Status.h"

#include <algorithm>
#include <cmath>

namespace dpc::rt {

/// Fewer samples may be sorted by chance.
static constexpr int64_t kLeastSamples = 16;

/// More values are not counted.
static constexpr size_t kMostValues = size_t(1) << 16;

/// The order matters also among the samples of a few small steps.
static int64_t samplesTogether(int64_t perStep) {
  return std::max<int64_t>(perStep, 8);
}

void LabelOrder::add(double label) {
  if (std::isnan(label)) // it has no place in an order
    return;
  if (counts.size() < kMostValues)
    ++counts[label];
  rises += added > 0 && label > last ? 1 : 0;
  falls += added > 0 && label < last ? 1 : 0;
  last = label;
  ++added;
}

/// Whether a step sees fewer labels than it would see in a random order. This
/// is for labels that occur several times.
bool LabelOrder::hasRuns() const {
  constexpr double kLeastRatio = 1.5;
  const auto values = static_cast<int64_t>(counts.size());
  if (added < kLeastSamples || values < 2 || 2 * values > added ||
      counts.size() == kMostValues)
    return false;
  const auto all = static_cast<double>(added);
  const auto some = static_cast<double>(samplesTogether(perStep));
  double expected = 0;
  for (const auto &[label, count] : counts)
    expected += 1 - std::pow(1 - static_cast<double>(count) / all, some);
  double seen = 1 + some * static_cast<double>(rises + falls) / all;
  return expected >= kLeastRatio * seen;
}

/// Whether labels that mostly differ rise, or fall, through more than a step. A
/// series in the order of time does both.
bool LabelOrder::hasPieces() const {
  constexpr int64_t kLeastChanges = 16, kLeastLength = 8, kLeastSteps = 2;
  const int64_t pieces = std::min(rises, falls) + 1;
  return rises + falls >= kLeastChanges && 2 * (rises + falls) > added &&
         added >= pieces * kLeastLength &&
         added >= pieces * kLeastSteps * samplesTogether(perStep);
}

std::string LabelOrder::text(const std::string &name) const {
  const auto values = static_cast<int64_t>(counts.size());
  const int64_t changes = rises + falls, pieces = std::min(rises, falls) + 1;
  const std::string input = concat("input '", name, "'");
  if (hasRuns())
    return concat(changes == values - 1
                      ? "the samples are sorted by " + input + " ("
                      : percent(added - 1 - changes, added - 1) +
                            " of the samples have the same value of " + input +
                            " as the sample before (",
                  values, " values): most steps see only a few of them");
  if (!hasPieces())
    return "";
  return concat("the samples are sorted by ", input,
                pieces > 1 ? concat(" in ", pieces, " parts") : "",
                ": a step sees similar values");
}

} // namespace dpc::rt
