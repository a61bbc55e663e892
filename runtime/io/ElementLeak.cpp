#include "runtime/io/ElementLeak.h"

#include "runtime/base/HostTensor.h"
#include "runtime/base/KeepIf.h"
#include "runtime/base/Status.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace dpc::rt {

/// Adds a point unless the curve then has two values for one label or does not
/// keep its direction. Of many points, the first ones are kept.
bool RankLeak::Curve::accepts(double label, double value) {
  constexpr size_t kMostPoints = 4096;
  auto next = points.lower_bound(label);
  if (next != points.end() && next->first == label)
    return next->second == value;
  if (next != points.end() && sign * (next->second - value) <= 0)
    return false;
  if (next != points.begin() && sign * (value - std::prev(next)->second) <= 0)
    return false;
  if (points.size() < kMostPoints)
    points.emplace_hint(next, label, value);
  return true;
}

void RankLeak::add(const std::byte *sample, double label) {
  constexpr size_t kFirst = 64; // fewer may be in one order by chance
  if (count == 0)
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
  for (int64_t element = 0; element < count; ++element)
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
  constexpr size_t kLeastLabels = 16;
  for (const Curve &curve : curves)
    if (curve.points.size() >= kLeastLabels)
      return concat("element ", curve.element, " of a sample ",
                    curve.sign > 0 ? "rises" : "falls", " with ", label);
  return "";
}

ClassLeak::ClassLeak(DType dtype, int64_t count) : dtype(dtype) {
  for (int64_t i = 0; i < count; ++i)
    elements.push_back({i});
}

bool ClassLeak::Element::add(double value, double label) {
  for (Value &one : values) {
    if (one.samples == 0)
      one = {value, label};
    if (one.value != value)
      continue;
    ++one.samples;
    one.hasOneLabel &= one.label == label;
    return true;
  }
  return false;
}

void ClassLeak::add(const std::byte *sample, double label) {
  constexpr size_t kMostClasses = size_t(1) << 16;
  if (elements.empty())
    return;
  ++classes[label];
  if (classes.size() > kMostClasses)
    elements.clear();
  keepIf(elements, [&](Element &element) {
    return element.add(loadAsDouble(sample, dtype, element.index), label);
  });
}

std::string ClassLeak::text(const std::string &label) const {
  // With two classes, the element is a linear function of the label.
  constexpr size_t kLeastClasses = 3;
  constexpr int64_t kLeastSamples = 8;
  if (classes.size() < kLeastClasses)
    return "";
  for (const Element &element : elements)
    for (size_t i : {1, 0}) {
      const Value &value = element.values[i];
      const int64_t others = element.values[1 - i].samples;
      if (std::min(value.samples, others) < kLeastSamples ||
          !value.hasOneLabel || classes.at(value.label) != value.samples)
        continue;
      char text[96];
      std::snprintf(text, sizeof text, "%.4g exactly where ", value.value);
      return concat("element ", element.index, " of a sample is ", text, label,
                    " is ", static_cast<int64_t>(value.label));
    }
  return "";
}

} // namespace dpc::rt
