//===- Experiment.cpp - Runs whose inputs differ a little -----------------===//
#include "tools/driver/Experiment.h"

#include "runtime/base/Random.h"
#include "runtime/io/IndexCheck.h"
#include "runtime/io/InputSource.h"

#include <cmath>
#include <map>
#include <tuple>

namespace dpc {

std::string resultName(const char *kind, size_t loss) {
  return kind + std::to_string(loss);
}

rt::HostTensor Experiment::random(const rt::Port &port, uint64_t seed) {
  rt::HostTensor tensor = rt::HostTensor::zeros(port.dtype, port.globalShape);
  rt::fillInput(tensor, rt::RandomStream(seed + 1, port.name), port);
  return tensor;
}

void Experiment::change(const rt::Port &port, rt::HostTensor &tensor,
                        int64_t index) {
  const auto limit = static_cast<double>(port.limit),
             first = static_cast<double>(port.first);
  double next = tensor.at(index) + 1;
  tensor.set(index, next < limit ? next : first);
}

bool Experiment::findLabels() {
  constexpr int kRuns = 24;
  std::vector<NamedTensors> runs(kRuns, base);
  for (int i = 0; i < kRuns; ++i)
    for (const rt::Port &port : ports)
      if (rt::isIndex(port))
        runs[i][port.name] = random(port, i);
  if (!run(runs))
    return false;
  auto column = [&](auto &&valueIn) {
    std::vector<double> values;
    for (int i = 0; i < kRuns; ++i)
      values.push_back(valueIn(i));
    return values;
  };
  // Few classes may give several elements the same values.
  std::map<std::vector<double>, std::optional<Element>> places;
  for (size_t input = 0; input < ports.size(); ++input)
    for (int64_t k = 0, e = rt::isIndex(ports[input])
                                ? base[ports[input].name].elements()
                                : 0;
         k < e; ++k) {
      auto [place, isNew] = places.try_emplace(
          column([&](int i) { return runs[i][ports[input].name].at(k); }),
          Element{input, k});
      if (!isNew)
        place->second = std::nullopt;
    }
  for (size_t loss = 0; results[0].count(resultName("labels", loss)); ++loss) {
    int64_t count = results[0].at(resultName("labels", loss)).elements();
    rowsOf.push_back(count);
    for (int64_t row = 0; row < count; ++row) {
      auto found = places.find(column([&](int i) {
        return results[i].at(resultName("labels", loss)).at(row);
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

bool Experiment::comparesSamples() const {
  for (size_t loss = 0; loss < rowsOf.size(); ++loss)
    for (const rt::Port &port : ports)
      if (port.batchDim == 0 &&
          results[0].at(resultName("scores", loss)).shape.back() ==
              port.globalShape[0])
        return true;
  return false;
}

std::vector<size_t> Experiment::changed(size_t runA, size_t runB) const {
  // Far above the rounding of fp32, far below the effect of one token.
  constexpr double kNoise = 1e-5;
  std::vector<size_t> rows;
  size_t first = 0;
  for (size_t loss = 0; loss < rowsOf.size(); ++loss) {
    const rt::HostTensor &a = results[runA].at(resultName("scores", loss)),
                         &b = results[runB].at(resultName("scores", loss));
    const double scale = largestFinite(a);
    const int64_t classes = a.shape.back();
    for (int64_t row = 0; row < rowsOf[loss]; ++row)
      for (int64_t i = row * classes; i < (row + 1) * classes; ++i)
        if (std::isnan(a.at(i)) != std::isnan(b.at(i)) ||
            std::abs(a.at(i) - b.at(i)) > kNoise * scale) {
          rows.push_back(first + row);
          break;
        }
    first += rowsOf[loss];
  }
  return rows;
}

bool Experiment::dependsOnPlace(size_t runA, size_t runB) const {
  constexpr double kNoise = 1e-4;
  std::map<std::tuple<size_t, size_t, int64_t>, size_t> rowOf;
  size_t first = 0;
  auto keyOf = [&](size_t loss, size_t row) {
    const std::optional<Element> &label = all[row].label;
    return label ? std::tuple(loss, label->input, label->index)
                 : std::tuple(loss, SIZE_MAX, int64_t(0));
  };
  for (size_t loss = 0; loss < rowsOf.size(); first += rowsOf[loss++])
    for (int64_t row = 0; row < rowsOf[loss]; ++row)
      rowOf[keyOf(loss, first + row)] = row;
  for (const auto &[key, row] : rowOf) {
    auto [loss, input, index] = key;
    if (input == SIZE_MAX)
      continue;
    const std::vector<int64_t> &shape = ports[input].globalShape;
    const int64_t last = rt::numElements(shape) / shape[0] * (shape[0] - 1);
    auto other = rowOf.find({loss, input, index + last});
    if (other == rowOf.end())
      continue;
    const rt::HostTensor &a = results[runA].at(resultName("scores", loss)),
                         &b = results[runB].at(resultName("scores", loss));
    const int64_t classes = a.shape.back();
    const double most = kNoise * largestFinite(a);
    for (int64_t i = 0; i < classes; ++i)
      if (std::abs(a.at(row * classes + i) -
                   b.at(other->second * classes + i)) > most)
        return true;
  }
  return false;
}

} // namespace dpc
