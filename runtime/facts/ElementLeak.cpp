#include "runtime/facts/ElementLeak.h"

#include "runtime/base/HostTensor.h"
#include "runtime/base/KeepIf.h"
#include "runtime/base/Status.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

namespace dpc::rt {

/// Adds a point unless the curve then does not keep its direction. Labels that
/// are close may have one value, and values that are close one label, because
/// they are rounded. Of many points, the first ones are kept.
bool RankLeak::Curve::accepts(double label, double value) {
  constexpr size_t kMostPoints = 4096;
  auto next = points.lower_bound(label);
  if (next != points.begin() && sign * (value - std::prev(next)->second) < 0)
    return false;
  const bool isKnown = next != points.end() && next->first == label;
  auto after = isKnown ? std::next(next) : next;
  if (after != points.end() && sign * (after->second - value) < 0)
    return false;
  if (!isKnown && points.size() < kMostPoints)
    points.emplace_hint(next, label, value);
  return true;
}

void RankLeak::add(const std::byte *sample, double label) {
  constexpr size_t kFirst = 64; // fewer may be in one order by chance
  if (count == 0 || std::isnan(label))
    return;
  if (++added > int64_t(kFirst)) {
    keepIf(curves, [&](Curve &curve) {
      return curve.accepts(label, loadAsDouble(sample, dtype, curve.element));
    });
    return;
  }
  std::vector<double> &values = first.emplace_back(label, count).second;
  for (int64_t i = 0; i < count; ++i)
    values[i] = loadAsDouble(sample, dtype, i);
  if (first.size() == kFirst)
    findCurves();
}

void RankLeak::findCurves() {
  constexpr size_t kMostCurves = 64; // text() names one
  for (int64_t element = 0; element < count && curves.size() < kMostCurves;
       ++element)
    for (double sign : {1.0, -1.0}) {
      Curve curve{element, sign, {}};
      if (std::ranges::all_of(first, [&](const auto &sample) {
            return curve.accepts(sample.first, sample.second[element]);
          }))
        curves.push_back(std::move(curve));
    }
  first.clear();
}

std::string RankLeak::text(const std::string &label) const {
  constexpr size_t kLeastValues = 16;
  for (const Curve &curve : curves) {
    std::set<double> values;
    for (const auto &[point, value] : curve.points)
      values.insert(value);
    if (values.size() >= kLeastValues)
      return concat("element ", curve.element, " of a sample ",
                    curve.sign > 0 ? "rises" : "falls", " with ", label);
  }
  return "";
}

void CounterLeak::add(const std::byte *sample) {
  if (added++ == 0) {
    // A count begins with 0 or 1.
    for (int64_t i = 0; i < count; ++i)
      if (double value = loadAsDouble(sample, dtype, i);
          value == 0 || value == 1)
        counters.emplace_back(i, value);
    return;
  }
  keepIf(counters, [&](std::pair<int64_t, double> &counter) {
    return loadAsDouble(sample, dtype, counter.first) == ++counter.second;
  });
}

std::string CounterLeak::text() const {
  return counters.empty() ? ""
                          : concat("element ", counters.front().first,
                                   " of a sample is the number of the sample");
}

ClassLeak::ClassLeak(DType dtype, int64_t count) : dtype(dtype) {
  constexpr int64_t kFew = 4096; // elements, of which many values are kept
  most = count <= kFew ? 32 : 2;
  for (int64_t i = 0; i < count; ++i)
    elements.push_back({i});
}

bool ClassLeak::Element::add(double value, double label, size_t most) {
  for (Value &one : values) {
    if (one.value != value)
      continue;
    ++one.samples;
    one.hasOneLabel &= one.label == label;
    return true;
  }
  values.push_back({value, label, 1});
  return values.size() <= most;
}

void ClassLeak::add(const std::byte *sample, double label) {
  constexpr size_t kMostClasses = size_t(1) << 16;
  if (elements.empty())
    return;
  ++classes[label];
  if (classes.size() > kMostClasses)
    elements.clear();
  keepIf(elements, [&](Element &element) {
    return element.add(loadAsDouble(sample, dtype, element.index), label, most);
  });
}

/// Fewer samples have a value by chance.
static constexpr int64_t kLeastSamplesOfValue = 8;

/// Returns that one of two values that occurs in all samples of a class and in
/// no others.
std::optional<size_t>
ClassLeak::Element::exactValue(const std::map<double, int64_t> &classes) const {
  for (size_t i : {1, 0})
    if (values.size() == 2 && values[i].hasOneLabel &&
        classes.at(values[i].label) == values[i].samples &&
        std::min(values[0].samples, values[1].samples) >= kLeastSamplesOfValue)
      return i;
  return std::nullopt;
}

/// Whether each value occurs in one of `count` classes.
bool ClassLeak::Element::tellsClasses(size_t count) const {
  return values.size() >= count &&
         std::ranges::all_of(values, [](const Value &one) {
           return one.hasOneLabel && one.samples >= kLeastSamplesOfValue;
         });
}

std::string ClassLeak::text(const std::string &label) const {
  // With two classes, an element of two values is a linear function of the
  // label.
  constexpr size_t kLeastClasses = 3;
  if (classes.size() < kLeastClasses)
    return "";
  for (const Element &element : elements) {
    const std::string name = concat("element ", element.index, " of a sample ");
    if (std::optional<size_t> i = element.exactValue(classes)) {
      const Value &value = element.values[*i];
      char text[96];
      std::snprintf(text, sizeof text, "is %.4g exactly where ", value.value);
      return concat(name, text, label, " is ",
                    static_cast<int64_t>(value.label));
    }
    if (element.tellsClasses(classes.size()))
      return concat(name, "has ", element.values.size(),
                    " values, of which each occurs with one value of ", label,
                    ",");
  }
  return "";
}

} // namespace dpc::rt
