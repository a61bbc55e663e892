#include "runtime/facts/PaddingFacts.h"

#include "runtime/base/HostTensor.h"
#include "runtime/base/OneLine.h"
#include "runtime/base/Status.h"

#include <algorithm>

namespace dpc::rt {

static bool isLabels(const Port &port) {
  return port.use == InputUse::Labels || port.use == InputUse::ShiftedLabels ||
         port.use == InputUse::IdsAndLabels;
}

static bool isIds(const Port &port) {
  constexpr int64_t kLeastIds = 16; // a few ids are repeated by chance
  return (port.use == InputUse::Ids || port.use == InputUse::IdsAndLabels) &&
         isInteger(port.dtype) && port.globalShape.size() == 2 &&
         port.limit - port.first >= kLeastIds;
}

std::vector<PaddingFacts> paddingsOf(const std::vector<Port> &ports) {
  std::vector<PaddingFacts> pairs;
  for (size_t i = 0; i < ports.size(); ++i)
    for (size_t k = 0; isIds(ports[i]) && k < ports.size(); ++k) {
      const Port &ids = ports[i], &other = ports[k];
      // Labels of another vocabulary have no label for padding.
      bool hasLabels =
          isLabels(other) && isInteger(other.dtype) && other.limit == ids.limit;
      bool isSame = i == k || ids.use == InputUse::Ids;
      if (isSame && ids.globalShape == other.globalShape &&
          (hasLabels || other.dependence.hidden || other.dependence.weighsLoss))
        pairs.emplace_back(i, k);
    }
  return pairs;
}

/// Whether the element at a place of padding `id` is wrong: a mask shows it, it
/// is a label that the loss counts, or the weight of its loss.
static bool isWrong(const Port &port, double value, double id) {
  if (isLabels(port))
    return value == id &&
           !(port.ignored && value == static_cast<double>(*port.ignored));
  const int64_t hidden = port.dependence.hidden.value_or(0);
  return hidden == kAddedMask ? value > kHidesScore
                              : value != static_cast<double>(hidden);
}

void PaddingFacts::add(const Port &idsPort, const void *idsData,
                       const Port &otherPort, const void *otherData,
                       int64_t count) {
  constexpr size_t kMostRuns = 256;
  const int64_t length = idsPort.globalShape.back();
  for (int64_t begin = 0; length > 1 && begin < count; begin += length) {
    ++rows;
    for (bool isEnd : {true, false}) {
      auto at = [&](int64_t k) { // from the end, or from the begin
        return begin + (isEnd ? length - 1 - k : k);
      };
      auto idAt = [&](int64_t k) {
        return loadAsDouble(idsData, idsPort.dtype, at(k));
      };
      const double id = idAt(0);
      int64_t size = 1;
      while (size < length && idAt(size) == id)
        ++size;
      Key key{static_cast<int64_t>(id), isEnd};
      if (size < 2 || size == length ||
          (runs.size() >= kMostRuns && !runs.contains(key)))
        continue;
      Run &run = runs[key];
      ++run.rows;
      run.lengths.insert(size);
      // The id at the other end may be a mark of it.
      for (int64_t k = size; k + 1 < length; ++k)
        run.inside += idAt(k) == id ? 1 : 0;
      // The id next to the others may be the mark of an end.
      int64_t before = run.wrong;
      for (int64_t k = 0; k + 1 < size; ++k)
        run.wrong +=
            isWrong(otherPort, loadAsDouble(otherData, otherPort.dtype, at(k)),
                    id)
                ? 1
                : 0;
      run.wrongRows += run.wrong > before ? 1 : 0;
    }
  }
}

bool PaddingFacts::isOfMask(const Port &otherPort) {
  return !isLabels(otherPort);
}

bool PaddingFacts::isPadding(const Run &run) const {
  constexpr int64_t kLeastRows = 8, kRarest = 8, kInside = 4;
  constexpr size_t kLeastLengths = 3;
  return run.rows >= kLeastRows && kRarest * run.rows >= rows &&
         run.lengths.size() >= kLeastLengths &&
         kInside * run.inside <= run.rows;
}

std::string PaddingFacts::text(const Port &idsPort,
                               const Port &otherPort) const {
  constexpr int64_t kLeastWrong = 4; // a quarter of the samples
  const std::string name = "input '" + oneLine(idsPort.name) + "'";
  const std::string otherName = "input '" + oneLine(otherPort.name) + "'";
  for (const auto &[key, run] : runs) {
    const auto &[id, isEnd] = key;
    if (!isPadding(run) || kLeastWrong * run.wrongRows < run.rows)
      continue;
    const std::string where =
        concat("in ", run.rows, " samples, ", name, isEnd ? " ends" : " begins",
               " with a run of ", id, ", and ");
    if (isOfMask(otherPort))
      return concat(where, otherName,
                    otherPort.dependence.weighsLoss
                        ? " weights their labels in "
                        : " shows them in ",
                    run.wrongRows,
                    ": if they are padding, does the mask belong to these "
                    "samples?");
    return concat(
        where, "the loss counts ", run.wrong, " labels there that are ", id,
        ids == other ? "" : " in " + otherName, ": if they are padding, ",
        otherPort.ignored ? concat("expected ", *otherPort.ignored,
                                   ", which the loss ignores")
                          : std::string("the loss should ignore them"));
  }
  return "";
}

} // namespace dpc::rt
