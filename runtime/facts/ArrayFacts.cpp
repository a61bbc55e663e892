#include "runtime/facts/ArrayFacts.h"

#include "runtime/base/HostTensor.h"
#include "runtime/base/OneLine.h"
#include "runtime/base/Percent.h"
#include "runtime/base/Status.h"
#include "runtime/facts/IndexCheck.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dpc::rt {

/// Calls visit(element, value) for each element.
template <typename T, typename Visit>
static void visitAs(const void *data, int64_t count, const Visit &visit) {
  const T *values = static_cast<const T *>(data);
  for (int64_t i = 0; i < count; ++i)
    visit(i, values[i]);
}

template <typename Visit>
static void visitAll(DType dtype, const void *data, int64_t count,
                     const Visit &visit) {
  switch (dtype) {
  case DType::F32:
    return visitAs<float>(data, count, visit);
  case DType::I64:
    return visitAs<int64_t>(data, count, visit);
  case DType::I32:
    return visitAs<int32_t>(data, count, visit);
  default:
    for (int64_t i = 0; i < count; ++i)
      visit(i, loadAsDouble(data, dtype, i));
  }
}

/// Whether the labels of an input are counted by their value.
static bool countsClasses(const Port &port) {
  constexpr int64_t kMost = int64_t(1) << 22;
  // The weight of a label may be looked up by the label.
  const bool looksUpWeights = port.use == InputUse::IdsAndLabels &&
                              !port.dependence.classWeights.empty();
  return (port.use == InputUse::Labels || port.use == InputUse::ShiftedLabels ||
          looksUpWeights) &&
         port.limit - port.first <= kMost;
}

void ArrayFacts::add(int64_t row, const void *data, int64_t count) {
  int64_t before = ignored;
  bool hasIgnored = port.ignored.has_value();
  double skipped = static_cast<double>(port.ignored.value_or(0));
  const int64_t classes = countsClasses(port) ? port.limit - port.first : 0;
  occurrences.resize(classes);
  visitAll(port.dtype, data, count, [&](int64_t i, auto element) {
    auto value = static_cast<double>(element);
    if (hasIgnored && value == skipped) {
      ++ignored;
    } else if (std::isfinite(value)) {
      if (auto label = static_cast<int64_t>(value) - port.first;
          label >= 0 && label < classes)
        ++occurrences[label];
      this->count(value);
    } else if (value < 0) {
      ++minusInfinite;
    } else if (!bad) {
      bad = {row, i, value};
    }
  });
  elements += count;
  if (count > 0 && ignored - before == count)
    ignoredRows.push_back(row);
}

void ArrayFacts::count(double value) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (counted == 0) {
    min = max = value;
    aboveMin = kInfinity;
    belowMax = -kInfinity;
  }
  if (value < min) {
    aboveMin = min;
    min = value;
    minCount = 0;
  } else if (value > min && value < aboveMin) {
    aboveMin = value;
  }
  if (value > max) {
    belowMax = max;
    max = value;
    maxCount = 0;
  } else if (value < max && value > belowMax) {
    belowMax = value;
  }
  minCount += value == min ? 1 : 0;
  maxCount += value == max ? 1 : 0;
  outside += value < port.dependence.lowest.value_or(-kInfinity) ||
                     value > port.dependence.highest.value_or(kInfinity)
                 ? 1
                 : 0;
  sum += value;
  squares += value * value;
  ++counted;
}

/// Says which share of the tokens a mask of 0 and 1 hides, or that a mask that
/// is added to scores hides none, or "".
std::string ArrayFacts::hiddenText() const {
  const std::optional<int64_t> &hidden = port.dependence.hidden;
  if (!hidden || counted == 0)
    return "";
  if (*hidden == kAddedMask)
    return minusInfinite > 0 || min < kHidesScore || max == min
               ? ""
               : "; it is added to the scores of attention, and hides no "
                 "token: -inf or a large negative number hides one";
  if (min < 0 || max > 1 || (isFloat(port.dtype) && sum != std::rint(sum)))
    return "";
  const auto ones = static_cast<int64_t>(sum);
  return concat(", hides ",
                percent(*hidden == 1 ? ones : counted - ones, counted),
                " of the tokens, those where it is ", *hidden);
}

/// Asks whether a frequent number that is far from all others marks missing
/// ones, or returns "".
std::string ArrayFacts::codeText() const {
  constexpr double kFar = 4, kRarest = 1000;
  constexpr int64_t kLeast = 8;
  if (isIndex(port) || port.dependence.hidden)
    return "";
  for (bool isMin : {true, false}) {
    const int64_t own = isMin ? minCount : maxCount;
    const double low = isMin ? aboveMin : min, high = isMin ? max : belowMax;
    const double gap = isMin ? aboveMin - min : max - belowMax;
    if (own >= kLeast &&
        kRarest * static_cast<double>(own) >= double(counted) &&
        2 * own < counted && high > low && gap > kFar * (high - low))
      return concat("; ", percent(own, counted), " are ",
                    spellNumber(isMin ? min : max),
                    ", and all others are from ", spellNumber(low), " to ",
                    spellNumber(high), ": does it mark missing values?");
  }
  return "";
}

/// Says that targets are outside of what the scores of the model can be.
std::string ArrayFacts::outsideText() const {
  constexpr int64_t kLeastShare = 100; // 1 %, which may be outliers
  const Dependence &own = port.dependence;
  if (kLeastShare * outside <= counted)
    return "";
  return concat("; ", percent(outside, counted),
                " are targets that the model cannot reach: its last op gives "
                "numbers from ",
                spellNumber(*own.lowest),
                own.highest ? concat(" to ", spellNumber(*own.highest))
                            : " on");
}

/// Asks whether the loss should divide by the sum of a mask of 0 and 1 by which
/// it multiplies, or returns "".
std::string ArrayFacts::weightText() const {
  if (port.dependence.weighsLoss && min < 0)
    return "; the loss multiplies by it: the errors with negative numbers grow "
           "in training";
  if (!port.dependence.scalesLoss || min != 0 || max != 1 ||
      sum != std::rint(sum))
    return "";
  const auto ones = static_cast<int64_t>(sum);
  return "; the loss multiplies by it, but divides by the number of all "
         "elements, also of the " +
         percent(counted - ones, counted) +
         " that are 0: should it divide by their sum?";
}

/// Says that the numbers are nearly equal after the model has normalized them.
std::string ArrayFacts::normalizedText() const {
  constexpr double kNarrow = 0.1; // a range; that of normalized data is over 1
  const Dependence &own = port.dependence;
  if (!own.scale || min == max || own.isTarget ||
      (max - min) * std::fabs(*own.scale) >= kNarrow)
    return "";
  const auto count = static_cast<double>(counted);
  const double mean = sum / count;
  const double deviation =
      std::sqrt(std::max(squares / count - mean * mean, 0.0));
  const double shift = own.shift.value_or(0);
  return concat("; the model first computes ",
                shift == 0 ? "x" : concat("(x - ", spellNumber(shift), ")"),
                " / ", spellNumber(1 / *own.scale),
                ", after which the numbers are ",
                spellNumber((mean - shift) * *own.scale), " +- ",
                spellNumber(deviation * std::fabs(*own.scale)),
                ": are they normalized or scaled already?");
}

/// Says that targets are 0 and 1 where the loss expects -1 and 1.
std::string ArrayFacts::zeroText() const {
  if (!port.dependence.ignoresZero || min != 0 || max != 1 ||
      minCount + maxCount != counted)
    return "";
  return concat("; the loss is a constant where it is 0, ",
                percent(minCount, counted),
                " of it: does the loss expect -1 and 1?");
}

std::string ArrayFacts::text() const {
  std::string text = "input '" + oneLine(port.name) + "': ";
  if (counted > 0)
    text += min == max ? "every value is " + spellNumber(min)
                       : spellNumber(min) + " to " + spellNumber(max);
  else
    text += "no finite value";
  if (counted > 0 && min != max && !isIndex(port))
    text += ", mean " + spellNumber(sum / static_cast<double>(counted));
  if (ignored > 0)
    text += ", " + percent(ignored, elements) + " ignored (" +
            std::to_string(*port.ignored) + ")" +
            (port.dependence.countsIgnored
                 ? ", but the loss divides by the number of all labels"
                 : "") +
            (port.dependence.countedBy.empty()
                 ? ""
                 : ", but output '" + oneLine(port.dependence.countedBy) +
                       "' is a mean over all labels");
  if (auto most = std::ranges::max_element(occurrences);
      min != max && most != occurrences.end() && 2 * *most > counted)
    text += ", " + percent(*most, counted) + " are " +
            spellNumber(
                static_cast<double>(port.first + (most - occurrences.begin())));
  text += hiddenText() + codeText() + outsideText() + weightText() +
          normalizedText() + zeroText();
  if (minusInfinite > 0)
    text += ", " + percent(minusInfinite, elements) + " -inf";
  if (counted > 0 && port.use == InputUse::Probabilities &&
      (min < 0 || max > 1))
    text += "; it holds the targets of a binary cross entropy, which are "
            "expected from 0 to 1";
  if (counted > 0 && port.use == InputUse::Positive && min <= 0)
    text += "; the model takes its logarithm, which is not finite for numbers "
            "up to 0";
  return text;
}

std::string ArrayFacts::wrappedText(DType stored) const {
  std::optional<int64_t> label = wrapped(port.ignored.value_or(0), stored);
  const auto count = static_cast<int64_t>(occurrences.size());
  if (!label || *label < port.first || *label - port.first >= count)
    return "";
  const int64_t own = occurrences[*label - port.first];
  // Other labels are that frequent only if the label is one of many classes.
  bool isMost = own > 0;
  for (int64_t i = 0; i < count; ++i)
    isMost &= i == *label - port.first || 2 * occurrences[i] <= own;
  return isMost ? concat("input '", oneLine(port.name),
                         "': ", percent(own, elements), " are ", *label,
                         ", as which a file of ", nameOf(stored), " holds ",
                         *port.ignored,
                         ", the label that the loss ignores: it counts them")
                : "";
}

std::string ArrayFacts::overflowText() const {
  constexpr double kLargest = 65504;
  const double most = -min > max ? min : max;
  if (!isFloat(port.dtype) || port.use == InputUse::Unread || counted == 0 ||
      std::fabs(most) <= kLargest || max <= 0)
    return "";
  return concat("input '", oneLine(port.name), "' holds ", spellNumber(most),
                "; the plan computes from it in fp16, whose largest number is ",
                spellNumber(kLargest));
}

} // namespace dpc::rt
