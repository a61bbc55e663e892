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

bool isPadded(const Port &port) {
  constexpr int64_t kLeastIds = 16; // a few ids are repeated by chance
  return (port.use == InputUse::Ids || port.use == InputUse::IdsAndLabels) &&
         isInteger(port.dtype) && port.globalShape.size() == 2 &&
         port.limit - port.first >= kLeastIds;
}

std::vector<PaddingFacts> paddingsOf(const std::vector<Port> &ports) {
  std::vector<PaddingFacts> pairs;
  for (size_t i = 0; i < ports.size(); ++i)
    for (size_t k = 0; isPadded(ports[i]) && k < ports.size(); ++k) {
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
  const int64_t length = idsPort.globalShape.back();
  const auto *ids = static_cast<const std::byte *>(idsData);
  for (int64_t begin = 0; length > 1 && begin < count; begin += length)
    for (const PaddingRuns::Run &run :
         runs.add(ids + begin * sizeOf(idsPort.dtype), idsPort.dtype, length)) {
      int64_t elements = 0;
      // The id next to the others may be the mark of an end.
      for (int64_t k = 0; k + 1 < run.length; ++k) {
        const int64_t place = begin + (run.key.second ? length - 1 - k : k);
        elements +=
            isWrong(otherPort, loadAsDouble(otherData, otherPort.dtype, place),
                    static_cast<double>(run.key.first))
                ? 1
                : 0;
      }
      Wrong &found = wrong[run.key];
      found.elements += elements;
      found.samples += elements > 0 ? 1 : 0;
    }
}

bool PaddingFacts::isOfMask(const Port &otherPort) {
  return !isLabels(otherPort);
}

std::string PaddingFacts::text(const Port &idsPort,
                               const Port &otherPort) const {
  constexpr int64_t kLeastWrong = 4; // a quarter of the samples
  const std::string name = "input '" + oneLine(idsPort.name) + "'";
  const std::string otherName = "input '" + oneLine(otherPort.name) + "'";
  for (const auto &[key, found] : wrong) {
    const auto &[id, isEnd] = key;
    const int64_t samples = runs.samplesOf(key);
    if (!runs.isPadding(key) || kLeastWrong * found.samples < samples)
      continue;
    const std::string where =
        concat("in ", samples, " samples, ", name, isEnd ? " ends" : " begins",
               " with a run of ", id, ", and ");
    if (isOfMask(otherPort))
      return concat(where, otherName,
                    otherPort.dependence.weighsLoss
                        ? " weights their labels in "
                        : " shows them in ",
                    found.samples,
                    ": if they are padding, does the mask belong to these "
                    "samples?");
    return concat(
        where, "the loss counts ", found.elements, " labels there that are ",
        id, ids == other ? "" : " in " + otherName, ": if they are padding, ",
        otherPort.ignored ? concat("expected ", *otherPort.ignored,
                                   ", which the loss ignores")
                          : std::string("the loss should ignore them"));
  }
  return "";
}

} // namespace dpc::rt
