//===- LeakChecks.cpp - inputs that hold a part of the answer -------------===//
#include "runtime/base/HostTensor.h"
#include "runtime/base/NameList.h"
#include "runtime/base/OneLine.h"
#include "runtime/facts/Checks.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

namespace dpc::rt {

namespace {

/// Finds windows of targets that begin with the last step of the window of
/// inputs: the model learns to copy it.
class WindowOverlap : public SampleCheck {
public:
  WindowOverlap(const SampleShape &shape, size_t input, size_t target)
      : port(shape.ports[input]), targetPort(shape.ports[target]),
        name(shape.nameOf(input)), targetName(shape.nameOf(target)),
        input(input), target(target) {
    for (int64_t own : endsOf(port, /*isLast=*/true))
      for (int64_t other : endsOf(targetPort, /*isLast=*/false))
        pairs.push_back({own, other});
    // Targets that are the inputs in another order end in one of them, too.
    for (int64_t own = 0; own < shape.elements[input]; ++own)
      for (int64_t other : endsOf(targetPort, /*isLast=*/true))
        copies.push_back({own, other});
  }

  /// Whether a window of this input may end where one of the target begins.
  static bool isFor(const SampleShape &shape, size_t input, size_t target) {
    constexpr int64_t kMost = 4096, kMostTargets = 64;
    const Port &port = shape.ports[input], &other = shape.ports[target];
    auto isWindow = [](const Port &one) {
      return isFloat(one.dtype) && one.use == InputUse::Data &&
             (one.globalShape.size() == 2 || one.globalShape.size() == 3);
    };
    return isWindow(port) && isWindow(other) && !port.dependence.isTarget &&
           other.dependence.isTarget && port.globalShape != other.globalShape &&
           shape.elements[input] <= kMost && shape.elements[target] > 1 &&
           shape.elements[target] <= kMostTargets;
  }

  void add(const SampleArrays &sample) override {
    if (pairs.empty())
      return;
    ++added;
    auto valueOf = [&](const Pair &pair) {
      return loadAsDouble(sample[input], port.dtype, pair.own);
    };
    auto differs = [&](const Pair &pair) {
      return valueOf(pair) !=
             loadAsDouble(sample[target], targetPort.dtype, pair.other);
    };
    std::erase_if(copies, differs);
    std::erase_if(pairs, differs);
    for (Pair &pair : pairs) {
      const double value = valueOf(pair);
      pair.changes += added > 1 && value != pair.last ? 1 : 0;
      pair.last = value;
    }
  }
  std::vector<std::string> texts() const override {
    constexpr int64_t kLeast = 32; // changes of a value
    for (const Pair &pair : pairs)
      if (pair.changes >= kLeast && copies.empty())
        return {concat("element ", pair.other, " of ", targetName,
                       ", of its first step, equals element ", pair.own, " of ",
                       name, ", of its last step, in all ", added,
                       " samples: do the targets begin one step early?")};
    return {};
  }

private:
  /// An element of the input and one of the target.
  struct Pair {
    int64_t own, other;
    int64_t changes = 0; ///< of the value from sample to sample
    double last = 0;
  };

  /// Returns the elements of the first or the last step. Steps are along one of
  /// the dimensions of a sample.
  static std::set<int64_t> endsOf(const Port &port, bool isLast) {
    const int64_t last = port.globalShape.back();
    int64_t count = 1;
    for (size_t i = 1; i < port.globalShape.size(); ++i)
      count *= port.globalShape[i];
    std::set<int64_t> places;
    for (int64_t i = 0; i < count; i += last)
      places.insert(isLast ? i + last - 1 : i);
    if (port.globalShape.size() == 3)
      for (int64_t i = 0; i < last; ++i)
        places.insert(isLast ? count - last + i : i);
    return places;
  }

  Port port, targetPort;
  std::string name, targetName;
  size_t input, target;
  std::vector<Pair> pairs;  ///< that are left
  std::vector<Pair> copies; ///< elements of the last step of the target
  int64_t added = 0;
};

/// Finds ids, at any position, that tell the class: nearly all texts of a class
/// have its id, and nearly no others.
class ClassIds : public SampleCheck {
public:
  ClassIds(const SampleShape &shape, size_t ids, size_t label)
      : port(shape.ports[ids]), labelPort(shape.ports[label]),
        name(shape.nameOf(ids)), labelName(shape.nameOf(label)),
        elements(shape.elements[ids]), ids(ids), label(label) {}

  void add(const SampleArrays &sample) override {
    constexpr size_t kMostClasses = 64;
    constexpr int64_t kMostSamples = int64_t(1) << 14; // enough to tell
    if (isFull || added == kMostSamples)
      return;
    const auto own =
        static_cast<int64_t>(loadAsDouble(sample[label], labelPort.dtype, 0));
    if (own == labelPort.ignored)
      return;
    ++added;
    ++samples[own];
    std::set<int64_t> found;
    for (int64_t k = 0; k < elements; ++k)
      found.insert(
          static_cast<int64_t>(loadAsDouble(sample[ids], port.dtype, k)));
    for (int64_t id : found)
      ++counts[id][own];
    isFull = counts.size() > kMostIds || samples.size() > kMostClasses;
  }
  std::vector<std::string> texts() const override {
    constexpr int64_t kLeast = 16; // samples of a class and of all others
    // Texts of two languages differ in many words.
    constexpr size_t kMostOfClass = 2;
    if (isFull || samples.size() < 2)
      return {};
    size_t told = 0;
    std::string example;
    for (const auto &[one, count] : samples) {
      const std::vector<int64_t> telling = idsOf(one);
      if (std::min(count, added - count) < kLeast ||
          telling.size() > kMostOfClass)
        return {};
      told += telling.empty() ? 0 : 1;
      if (!telling.empty() && example.empty())
        example = concat("id ", telling.front(), " is in ",
                         counts.at(telling.front()).at(one), " of ", count,
                         " samples with label ", one, " of ", labelName,
                         " and in ", othersWith(telling.front(), one), " of ",
                         added - count, " others");
    }
    // The samples of the last class are those without an id.
    if (told + 1 < samples.size())
      return {};
    return {concat(name, ": ", example,
                   told > 1 ? concat(", and ", told, " of ", samples.size(),
                                     " classes have such an id")
                            : "",
                   ": does the text hold the label?")};
  }

private:
  static constexpr size_t kMostIds = size_t(1) << 17;

  int64_t othersWith(int64_t id, int64_t own) const {
    int64_t count = 0;
    for (const auto &[one, found] : counts.at(id))
      count += one == own ? 0 : found;
    return count;
  }
  /// Returns the ids that tell a class.
  std::vector<int64_t> idsOf(int64_t own) const {
    constexpr double kNearlyAll = 0.95, kNearlyNone = 0.01;
    const auto all = static_cast<double>(samples.at(own));
    const double others = static_cast<double>(added) - all;
    std::vector<int64_t> found;
    for (const auto &[id, ofClasses] : counts) {
      auto with = ofClasses.find(own);
      if (with != ofClasses.end() &&
          static_cast<double>(with->second) >= kNearlyAll * all &&
          static_cast<double>(othersWith(id, own)) <= kNearlyNone * others)
        found.push_back(id);
    }
    std::ranges::sort(found);
    return found;
  }

  Port port, labelPort;
  std::string name, labelName;
  int64_t elements;
  size_t ids, label;
  std::map<int64_t, int64_t> samples; ///< by label
  /// The number of samples of each label that have an id.
  std::unordered_map<int64_t, std::map<int64_t, int64_t>> counts;
  int64_t added = 0;
  bool isFull = false; ///< there are too many ids or classes
};

} // namespace

void addLeakChecks(const SampleShape &shape, SampleChecks &checks) {
  for (size_t i = 0; i < shape.ports.size(); ++i)
    for (size_t k = 0; k < shape.ports.size(); ++k) {
      const Port &port = shape.ports[i], &other = shape.ports[k];
      if (i != k && WindowOverlap::isFor(shape, i, k))
        checks.push_back(std::make_unique<WindowOverlap>(shape, i, k));
      if (port.use == InputUse::Ids && shape.elements[i] > 1 &&
          (other.use == InputUse::Labels ||
           other.use == InputUse::Probabilities) &&
          shape.elements[k] == 1)
        checks.push_back(std::make_unique<ClassIds>(shape, i, k));
    }
}

} // namespace dpc::rt
