//===- SeriesChecks.cpp - windows of a series against the next step -------===//
#include "runtime/base/HostTensor.h"
#include "runtime/base/OneLine.h"
#include "runtime/facts/Checks.h"
#include "runtime/facts/PassageSet.h"

#include <algorithm>
#include <bit>
#include <unordered_set>

namespace dpc::rt {

namespace {

/// Finds windows whose steps lie along another dimension than those of the
/// model, or in another order. Windows overlap, so that successive steps of one
/// show which step of another its target follows. Only equal numbers count: a
/// season, a trend or a target several steps ahead has no such pairs.
class WindowOrder : public SampleCheck {
public:
  WindowOrder(const SampleShape &shape, size_t input, size_t target)
      : port(shape.ports[input]), targetPort(shape.ports[target]),
        name(shape.nameOf(input)), targetName(shape.nameOf(target)),
        elements(shape.elements[input]), input(input), target(target) {
    for (int64_t dim : {1, 2})
      for (int64_t column = 0; column < columnsOf(dim); ++column)
        for (bool isLast : {true, false})
          ends.push_back({dim, column, isLast});
  }

  /// Whether the input may have windows of steps of several numbers. Windows of
  /// single numbers may be lags, of which the newest one usually is first.
  static bool isFor(const SampleShape &shape, size_t input, size_t target) {
    constexpr int64_t kMost = 4096, kLeast = 3;
    const Port &port = shape.ports[input], &other = shape.ports[target];
    const std::vector<int64_t> &dims = port.globalShape;
    auto areNumbers = [](const Port &one) {
      return isFloat(one.dtype) && one.use == InputUse::Data;
    };
    return areNumbers(port) && areNumbers(other) && !port.dependence.isTarget &&
           other.dependence.isTarget && dims.size() == 3 && dims[1] >= kLeast &&
           dims[2] >= kLeast && dims[1] * dims[2] == shape.elements[input] &&
           shape.elements[input] <= kMost;
  }

  void add(const SampleArrays &sample) override {
    constexpr int64_t kMostElements = int64_t(1) << 22;
    constexpr size_t kMostPairs = size_t(1) << 18;
    if (ends.empty() || added * elements >= kMostElements ||
        pairs.size() >= kMostPairs)
      return;
    ++added;
    for (const End &end : ends) {
      const int64_t last = port.globalShape[end.dim] - 1;
      const uint64_t next = targetOf(sample, end);
      queries.push_back(end.isLast
                            ? pairOf(end, stepOf(sample, end, last), next)
                            : pairOf(end, next, stepOf(sample, end, 0)));
      uint64_t before = stepOf(sample, end, 0);
      for (int64_t k = 1; end.isLast && k <= last; ++k) {
        const uint64_t own = stepOf(sample, end, k);
        pairs.insert(pairOf(end, before, own));
        before = own;
      }
    }
  }
  std::vector<std::string> texts() const override {
    constexpr double kLeastShare = 0.5, kMostShare = 0.05;
    constexpr int64_t kLeastSamples = 32;
    if (added < kLeastSamples || shareAt(1, true) > kMostShare)
      return {};
    // Channels are first in some models.
    const bool isSquare = port.globalShape[1] == port.globalShape[2];
    if (shareAt(2, true) >= kLeastShare)
      return isSquare
                 ? std::vector{concat(
                       targetName, " is the step after the last one of ", name,
                       " along dimension 2, as other samples show, and "
                       "not along dimension 1: are the two transposed?")}
                 : std::vector<std::string>();
    for (int64_t dim : {1, 2})
      if (shareAt(dim, false) >= kLeastShare)
        return {concat(targetName, " is the step before the first one of ",
                       name, " along dimension ", dim,
                       ", as other samples show: does the series go backwards, "
                       "with its newest step first?")};
    return {};
  }

private:
  /// An end of the steps along a dimension, which are single numbers if the
  /// target is one.
  struct End {
    int64_t dim, column;
    bool isLast;
  };

  int64_t widthOf(int64_t dim) const { return port.globalShape[3 - dim]; }
  bool isOfNumbers() const {
    return numElements(targetPort.globalShape) ==
           targetPort.globalShape.front();
  }
  /// Returns the columns to compare, or 0 if the target does not begin with a
  /// step along the dimension.
  int64_t columnsOf(int64_t dim) const {
    const std::vector<int64_t> &dims = targetPort.globalShape;
    if (isOfNumbers())
      return widthOf(dim);
    const bool isOne = numElements(dims) == dims.front() * widthOf(dim);
    return isOne || (dims.size() == 3 && dims[2] == widthOf(dim)) ? 1 : 0;
  }
  static uint64_t addTo(uint64_t hash, double value) {
    return mixed(hash ^ std::bit_cast<uint64_t>(value));
  }
  static uint64_t pairOf(const End &end, uint64_t before, uint64_t after) {
    return mixed(mixed(mixed(uint64_t(2 * end.column + end.dim)) ^ before) ^
                 after);
  }
  /// Returns the hash of step k of the window.
  uint64_t stepOf(const SampleArrays &sample, const End &end, int64_t k) const {
    const int64_t row = port.globalShape[2];
    const int64_t stride = end.dim == 1 ? 1 : row;
    const int64_t begin = k * (end.dim == 1 ? row : 1) + end.column * stride;
    const int64_t count = isOfNumbers() ? 1 : widthOf(end.dim);
    uint64_t hash = 0;
    for (int64_t i = 0; i < count; ++i)
      hash = addTo(hash,
                   loadAsDouble(sample[input], port.dtype, begin + i * stride));
    return hash;
  }
  /// Returns the hash of the first step of the target.
  uint64_t targetOf(const SampleArrays &sample, const End &end) const {
    const int64_t count = isOfNumbers() ? 1 : widthOf(end.dim);
    uint64_t hash = 0;
    for (int64_t i = 0; i < count; ++i)
      hash = addTo(hash, loadAsDouble(sample[target], targetPort.dtype, i));
    return hash;
  }
  /// Returns in which part of the samples the target continues an end of the
  /// window, of the column with most of them.
  double shareAt(int64_t dim, bool isLast) const {
    int64_t most = 0;
    for (size_t i = 0; i < ends.size(); ++i) {
      if (ends[i].dim != dim || ends[i].isLast != isLast)
        continue;
      int64_t found = 0;
      for (size_t k = i; k < queries.size(); k += ends.size())
        found += pairs.contains(queries[k]) ? 1 : 0;
      most = std::max(most, found);
    }
    return static_cast<double>(most) / static_cast<double>(added);
  }

  Port port, targetPort;
  std::string name, targetName;
  int64_t elements;
  size_t input, target;
  std::vector<End> ends;
  std::unordered_set<uint64_t> pairs; ///< of successive steps of any window
  std::vector<uint64_t> queries; ///< of the target, for each sample and end
  int64_t added = 0;
};

} // namespace

void addSeriesChecks(const SampleShape &shape, SampleChecks &checks) {
  for (size_t i = 0; i < shape.ports.size(); ++i)
    for (size_t k = 0; k < shape.ports.size(); ++k)
      if (i != k && WindowOrder::isFor(shape, i, k))
        checks.push_back(std::make_unique<WindowOrder>(shape, i, k));
}

} // namespace dpc::rt
