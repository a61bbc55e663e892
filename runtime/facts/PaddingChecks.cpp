//===- PaddingChecks.cpp - what padding shows of ids ----------------------===//
#include "runtime/base/HostTensor.h"
#include "runtime/base/OneLine.h"
#include "runtime/facts/Checks.h"
#include "runtime/facts/PaddingFacts.h"
#include "runtime/facts/PaddingRuns.h"

#include <algorithm>

namespace dpc::rt {

namespace {

/// A check of the padding of one input of ids.
class OfPadding : public SampleCheck {
public:
  OfPadding(const SampleShape &shape, size_t ids)
      : port(shape.ports[ids]), count(shape.elements[ids]),
        name(shape.nameOf(ids)), ids(ids) {}

  void add(const SampleArrays &sample) override {
    runs.add(sample[ids], port.dtype, count);
  }

protected:
  int64_t idAt(const SampleArrays &sample, int64_t k) const {
    return static_cast<int64_t>(loadAsDouble(sample[ids], port.dtype, k));
  }
  /// "64 of 64 samples"
  std::string samplesText(const PaddingRuns::Key &key) const {
    return concat(runs.samplesOf(key), " of ", runs.samples(), " samples");
  }

  Port port;
  int64_t count;
  std::string name;
  size_t ids;
  PaddingRuns runs;
};

/// Says that a model that reads the scores of the last position reads padding.
class LastPosition : public OfPadding {
public:
  using OfPadding::OfPadding;

  std::vector<std::string> texts() const override {
    for (const PaddingRuns::Key &key : runs.padding())
      if (key.second && key.first != port.dependence.padding)
        return {concat(name,
                       ": the loss reads the scores of the last position "
                       "only, but ",
                       samplesText(key), " end with a run of ", key.first,
                       ": if it is padding, expected padding at the begin, or "
                       "a model that reads the last position before it")};
    return {};
  }
};

/// Says that the data are padded with another id than the one with which the
/// model compares its ids.
class PaddingId : public OfPadding {
public:
  using OfPadding::OfPadding;

  void add(const SampleArrays &sample) override {
    OfPadding::add(sample);
    for (int64_t k = 0; k < count && !occurs; ++k)
      occurs = idAt(sample, k) == port.dependence.padding;
  }
  std::vector<std::string> texts() const override {
    const int64_t own = port.dependence.padding.value();
    for (const PaddingRuns::Key &key : runs.padding())
      if (!occurs && key.first != own)
        return {concat(name, ": the model looks for the id ", own,
                       ", which does not occur, but ", samplesText(key), " ",
                       key.second ? "end" : "begin", " with a run of ",
                       key.first, ": is ", own, " the padding of the model?")};
    return {};
  }

private:
  bool occurs = false;
};

/// Says that no label is the id of the padding, although different ids stand
/// before it. If the id also ends texts, its first place in each sample needs a
/// label.
class EndOfText : public OfPadding {
public:
  EndOfText(const SampleShape &shape, size_t ids, size_t labels)
      : OfPadding(shape, ids), labelsPort(shape.ports[labels]),
        labelsName(shape.nameOf(labels)), labels(labels),
        seen(labelsPort.limit - labelsPort.first) {}

  void add(const SampleArrays &sample) override {
    for (const PaddingRuns::Run &run : runs.add(sample[ids], port.dtype, count))
      if (run.key.second && before[run.key].size() < kManyIds)
        before[run.key].insert(idAt(sample, count - run.length - 1));
    const bool isShifted = labelsPort.use == InputUse::ShiftedLabels;
    for (int64_t k = 0; k < count; ++k) {
      const int64_t label = labelAt(sample, k);
      if (label == labelsPort.ignored)
        continue;
      const int64_t next = isShifted ? k : k + 1;
      ++counted;
      following += next < count && label == idAt(sample, next) ? 1 : 0;
      if (const int64_t place = label - labelsPort.first;
          place >= 0 && place < static_cast<int64_t>(seen.size()))
        seen[place] = true;
    }
  }
  std::vector<std::string> texts() const override {
    constexpr int64_t kLeastFollowing = 2; // half: the loss predicts next ids
    if (kLeastFollowing * following < counted)
      return {};
    for (const auto &[key, found] : before)
      if (runs.isPadding(key) && found.size() >= kManyIds &&
          key.first != labelsPort.ignored && !isSeen(key.first))
        return {concat("in ", samplesText(key), ", ", name,
                       " ends with a run of ", key.first,
                       ", and different ids stand before it, but no label in ",
                       labelsName, " is ", key.first,
                       ": nothing trains the model to predict it")};
    return {};
  }

private:
  static constexpr size_t kManyIds = 4;

  bool isSeen(int64_t label) const {
    const int64_t place = label - labelsPort.first;
    return place < 0 || place >= static_cast<int64_t>(seen.size()) ||
           seen[place];
  }
  int64_t labelAt(const SampleArrays &sample, int64_t k) const {
    return static_cast<int64_t>(
        loadAsDouble(sample[labels], labelsPort.dtype, k));
  }

  Port labelsPort;
  std::string labelsName;
  size_t labels;
  /// Some different ids that stand before the runs at an end.
  std::map<PaddingRuns::Key, std::set<int64_t>> before;
  std::vector<bool> seen; ///< the labels that are not ignored, from the first
  int64_t counted = 0, following = 0;
};

} // namespace

void addPaddingChecks(const SampleShape &shape, SampleChecks &checks) {
  constexpr int64_t kMostLabels = int64_t(1) << 22;
  const bool hasMask = std::ranges::any_of(shape.ports, [](const Port &port) {
    return port.dependence.hidden.has_value();
  });
  for (size_t i = 0; i < shape.ports.size(); ++i) {
    const Port &port = shape.ports[i];
    if (!isPadded(port) || shape.elements[i] != port.globalShape.back())
      continue;
    if (port.dependence.readsLast)
      checks.push_back(std::make_unique<LastPosition>(shape, i));
    if (port.dependence.padding && !hasMask)
      checks.push_back(std::make_unique<PaddingId>(shape, i));
    for (size_t k = 0; k < shape.ports.size(); ++k) {
      const Port &other = shape.ports[k];
      if ((other.use == InputUse::Labels ||
           other.use == InputUse::ShiftedLabels) &&
          other.ignored && isInteger(other.dtype) &&
          other.globalShape == port.globalShape && other.limit == port.limit &&
          other.limit - other.first <= kMostLabels)
        checks.push_back(std::make_unique<EndOfText>(shape, i, k));
    }
  }
}

} // namespace dpc::rt
