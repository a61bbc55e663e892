//===- Experiment.cpp - Runs whose inputs differ a little -----------------===//
#include "tools/driver/Experiment.h"

#include "runtime/base/Random.h"
#include "runtime/facts/IndexCheck.h"
#include "runtime/io/InputSource.h"

#include <cmath>
#include <map>
#include <tuple>

namespace dpc {

std::string resultName(const char *kind, size_t comparison) {
  return kind + std::to_string(comparison);
}

rt::HostTensor Experiment::random(const rt::Port &port, uint64_t seed) {
  rt::HostTensor tensor = rt::HostTensor::zeros(port.dtype, port.globalShape);
  rt::fillInput(tensor, rt::RandomStream(seed + 1, port.name), port);
  return tensor;
}

void Experiment::fill(rt::HostTensor &tensor, double value) {
  for (int64_t k = 0; k < tensor.elements(); ++k)
    tensor.set(k, value);
}

void Experiment::change(const rt::Port &port, rt::HostTensor &tensor,
                        int64_t position) {
  const std::vector<int64_t> &shape = port.globalShape;
  const int64_t size = rt::numElements(shape) / (shape[0] * shape[1]);
  // Equal changes of all numbers would be lost in a norm.
  const rt::HostTensor other = random(port, 2);
  for (int64_t k = position * size; k < (position + 1) * size; ++k) {
    double next = tensor.at(k) + 1;
    tensor.set(k, !rt::isIndex(port) ? other.at(k)
                  : next >= static_cast<double>(port.limit)
                      ? static_cast<double>(port.first)
                      : next);
  }
}

/// Whether elements of `port` may be labels or targets. Most large inputs are
/// images.
static bool mayHaveLabels(const rt::Port &port) {
  constexpr int64_t kMostElements = 1 << 14;
  return rt::isIndex(port) ||
         rt::numElements(port.globalShape) <= kMostElements;
}

bool Experiment::findLabels() {
  constexpr int kRuns = 24;
  std::vector<NamedTensors> runs(kRuns, base);
  for (int i = 0; i < kRuns; ++i)
    for (const rt::Port &port : ports)
      if (mayHaveLabels(port))
        runs[i][port.name] = random(port, i);
  if (!run(runs))
    return false;
  auto column = [&](auto &&valueIn) {
    std::vector<double> values;
    values.reserve(kRuns);
    for (int i = 0; i < kRuns; ++i)
      values.push_back(valueIn(i));
    return values;
  };
  // Few classes may give several elements the same values.
  std::map<std::vector<double>, std::optional<Element>> places;
  for (size_t input = 0; input < ports.size(); ++input)
    for (int64_t k = 0, e = mayHaveLabels(ports[input])
                                ? base[ports[input].name].elements()
                                : 0;
         k < e; ++k) {
      auto [place, isNew] = places.try_emplace(
          column([&](int i) { return runs[i][ports[input].name].at(k); }),
          Element{input, k});
      if (!isNew)
        place->second = std::nullopt;
    }
  for (size_t comparison = 0;
       results[0].count(resultName("labels", comparison)); ++comparison) {
    int64_t count = results[0].at(resultName("labels", comparison)).elements();
    rowsOf.push_back(count);
    for (int64_t row = 0; row < count; ++row) {
      auto found = places.find(column([&](int i) {
        return results[i].at(resultName("labels", comparison)).at(row);
      }));
      all.push_back(found == places.end() ? Row() : Row{found->second});
    }
  }
  return true;
}

double largestFinite(const rt::HostTensor &tensor) {
  double largest = 0;
  for (int64_t i = 0, e = tensor.elements(); i < e; ++i)
    if (std::isfinite(tensor.at(i)))
      largest = std::max(largest, std::abs(tensor.at(i)));
  return largest;
}

int64_t Experiment::classesOf(size_t comparison) const {
  return results[0].at(resultName("scores", comparison)).elements() /
         std::max<int64_t>(1, rowsOf[comparison]);
}

bool Experiment::comparesSamples() const {
  for (size_t i = 0; i < rowsOf.size(); ++i)
    for (const rt::Port &port : ports)
      if (port.batchDim == 0 && port.globalShape[0] > 1 &&
          classesOf(i) == port.globalShape[0])
        return true;
  return false;
}

std::vector<size_t> Experiment::changed(size_t runA, size_t runB) const {
  // Far above the rounding of fp32, far below the effect of one token.
  constexpr double kNoise = 1e-5;
  std::vector<size_t> rows;
  size_t first = 0;
  for (size_t comparison = 0; comparison < rowsOf.size(); ++comparison) {
    const rt::HostTensor &a =
                             results[runA].at(resultName("scores", comparison)),
                         &b =
                             results[runB].at(resultName("scores", comparison));
    const double scale = largestFinite(a);
    const int64_t classes = classesOf(comparison);
    for (int64_t row = 0; row < rowsOf[comparison]; ++row)
      for (int64_t i = row * classes; i < (row + 1) * classes; ++i)
        if (std::isnan(a.at(i)) != std::isnan(b.at(i)) ||
            std::abs(a.at(i) - b.at(i)) > kNoise * scale) {
          rows.push_back(first + row);
          break;
        }
    first += rowsOf[comparison];
  }
  return rows;
}

bool Experiment::haveEqualSums(size_t runA, size_t runB) const {
  constexpr double kNoise = 1e-5;
  for (size_t comparison = 0; comparison < rowsOf.size(); ++comparison) {
    const std::string name = resultName("scores", comparison);
    const rt::HostTensor &a = results[runA].at(name),
                         &b = results[runB].at(name);
    const double most = kNoise * largestFinite(a);
    const int64_t classes = classesOf(comparison);
    for (int64_t k = 0; k < classes; ++k) {
      double sum = 0, squares = 0;
      for (int64_t i = k; i < a.elements(); i += classes) {
        sum += a.at(i) - b.at(i);
        squares += a.at(i) * a.at(i) - b.at(i) * b.at(i);
      }
      const auto rows = static_cast<double>(rowsOf[comparison]);
      // NaN compares false.
      if (!(std::abs(sum) <= most * rows &&
            std::abs(squares) <= 2 * most * largestFinite(a) * rows))
        return false;
    }
  }
  return true;
}

bool Experiment::dependsOnPlace(size_t runA, size_t runB) const {
  constexpr double kNoise = 1e-4;
  std::map<std::tuple<size_t, size_t, int64_t>, size_t> rowOf;
  size_t first = 0;
  auto keyOf = [&](size_t comparison, size_t row) {
    const std::optional<Element> &label = all[row].label;
    return label ? std::tuple(comparison, label->input, label->index)
                 : std::tuple(comparison, SIZE_MAX, int64_t(0));
  };
  for (size_t comparison = 0; comparison < rowsOf.size();
       first += rowsOf[comparison++])
    for (int64_t row = 0; row < rowsOf[comparison]; ++row)
      rowOf[keyOf(comparison, first + row)] = row;
  for (const auto &[key, row] : rowOf) {
    auto [comparison, input, index] = key;
    if (input == SIZE_MAX)
      continue;
    const std::vector<int64_t> &shape = ports[input].globalShape;
    const int64_t last = rt::numElements(shape) / shape[0] * (shape[0] - 1);
    auto other = rowOf.find({comparison, input, index + last});
    if (other == rowOf.end())
      continue;
    const rt::HostTensor &a =
                             results[runA].at(resultName("scores", comparison)),
                         &b =
                             results[runB].at(resultName("scores", comparison));
    const int64_t classes = classesOf(comparison);
    const double most = kNoise * largestFinite(a);
    for (int64_t i = 0; i < classes; ++i)
      if (std::abs(a.at(row * classes + i) -
                   b.at(other->second * classes + i)) > most)
        return true;
  }
  return false;
}

} // namespace dpc
