#include "runtime/facts/ShiftFacts.h"

#include "runtime/base/HostTensor.h"
#include "runtime/base/OneLine.h"
#include "runtime/base/Status.h"

#include <algorithm>

namespace dpc::rt {

static bool isLabels(const Port &port) {
  return port.use == InputUse::Labels || port.use == InputUse::ShiftedLabels;
}

std::vector<ShiftFacts> shiftsOf(const std::vector<Port> &ports) {
  std::vector<ShiftFacts> pairs;
  for (size_t ids = 0; ids < ports.size(); ++ids)
    for (size_t labels = 0; labels < ports.size(); ++labels) {
      const Port &a = ports[ids], &b = ports[labels];
      const bool areTokens = isInteger(a.dtype) && isInteger(b.dtype) &&
                             a.use == InputUse::Ids && isLabels(b);
      const bool areNumbers = isFloat(a.dtype) && isFloat(b.dtype) &&
                              b.dependence.lookahead.count(a.name) > 0;
      if (a.globalShape == b.globalShape && a.globalShape.size() >= 2 &&
          (areTokens || areNumbers))
        pairs.emplace_back(ids, labels);
    }
  return pairs;
}

void ShiftFacts::add(const Port &idsPort, const void *idsData,
                     const Port &labelsPort, const void *labelsData,
                     int64_t count) {
  // Elements of a sequence, and of a position.
  const std::vector<int64_t> &shape = idsPort.globalShape;
  const int64_t length = isInteger(idsPort.dtype)
                             ? shape.back()
                             : numElements(shape) / shape.front();
  const int64_t size = isInteger(idsPort.dtype) ? 1 : length / shape[1];
  auto idAt = [&](int64_t k) {
    return loadAsDouble(idsData, idsPort.dtype, k);
  };
  auto labelAt = [&](int64_t k) {
    return loadAsDouble(labelsData, labelsPort.dtype, k);
  };
  auto isIgnored = [&](int64_t k) {
    return labelsPort.ignored &&
           labelAt(k) == static_cast<double>(*labelsPort.ignored);
  };
  // Padding, for example, is equal at every offset.
  auto isRepeated = [&](int64_t k, int64_t begin, int64_t last) {
    return (k - size >= begin && idAt(k) == idAt(k - size)) ||
           (k + size <= last && idAt(k) == idAt(k + size));
  };
  auto isOpen = [&] { return std::ranges::any_of(leads, &Lead::isOpen); };
  for (int64_t begin = 0; isOpen() && begin < count; begin += length) {
    const int64_t last = begin + length - 1;
    bool isConstant = true;
    for (int64_t k = begin; k < last && isConstant; ++k)
      isConstant = idAt(k) == idAt(k + 1);
    if (isConstant)
      continue;
    for (int64_t k = begin; k <= last; ++k) {
      if (isIgnored(k)) {
        hasIgnored = true;
        continue;
      }
      for (int64_t offset = -kFarthest; offset <= kFarthest; ++offset) {
        const int64_t place = k + offset * size;
        if (place >= begin && place <= last && lead(offset).isOpen() &&
            !isRepeated(place, begin, last))
          lead(offset).add(labelAt(k) == idAt(place));
      }
    }
    hasFirstIds |= rolled.pairs > 0 && idAt(begin) != firstId;
    firstId = idAt(begin);
    rolled.add(labelAt(last) == idAt(begin));
  }
}

/// "of the next position", "of 2 positions before"
static std::string placeText(int64_t offset) {
  return offset == 0   ? std::string("of the same position")
         : offset == 1 ? std::string("of the next position")
         : offset > 0  ? concat("of ", offset, " positions later")
                       : concat("of ", -offset, " positions before");
}

std::string ShiftFacts::text(const std::vector<Port> &ports,
                             const std::vector<ShiftFacts> &others) const {
  const Port &idsPort = ports[ids], &labelsPort = ports[labels];
  const std::optional<int64_t> offset = proven(labelsPort);
  if (!offset)
    return "";
  const bool areIds = isInteger(idsPort.dtype);
  if (auto found = labelsPort.dependence.lookahead.find(idsPort.name);
      labelsPort.use != InputUse::ShiftedLabels && *offset > 0 &&
      found != labelsPort.dependence.lookahead.end() &&
      *offset <= found->second)
    return "input '" + oneLine(labelsPort.name) + "' holds the " +
           (areIds ? "ids " : "values ") + placeText(*offset) +
           (areIds ? "" : " of input '" + oneLine(idsPort.name) + "'") +
           ", which the scores of each position depend on: the model reads "
           "what it predicts; is a causal mask missing, or does an op mix "
           "positions?";
  auto isBefore = [&](const ShiftFacts &other) {
    return other.ids == ids && other.proven(ports[other.labels]) == *offset - 1;
  };
  if (!areIds || (*offset > 1 && std::ranges::any_of(others, isBefore)))
    return "";
  return offsetText(idsPort, labelsPort, *offset);
}

static int64_t expectedOffset(const Port &labelsPort) {
  return labelsPort.use == InputUse::ShiftedLabels ? 0 : 1;
}

/// Says what is unusual in labels that are the ids at `offset`, or "".
std::string ShiftFacts::offsetText(const Port &idsPort, const Port &labelsPort,
                                   int64_t offset) const {
  constexpr int64_t kLeastRolled = 3; // sequences
  const bool shiftsItself = labelsPort.use == InputUse::ShiftedLabels;
  const std::string holder = "input '" + oneLine(labelsPort.name) +
                             "' holds the ids " + placeText(offset);
  if (offset == expectedOffset(labelsPort))
    return !shiftsItself && rolled.holds() && hasFirstIds &&
                   rolled.pairs >= kLeastRolled
               ? "the last label of each sequence of input '" +
                     oneLine(labelsPort.name) +
                     "' is the first id of the sequence: are the labels "
                     "rolled? A label without a next id should be ignored"
               : "";
  if (offset == -1)
    return "input '" + oneLine(idsPort.name) +
           "' holds the labels of the next position: are the two swapped?";
  if (offset == 0)
    return hasIgnored && lead(0).holds()
               ? holder + " where it is not ignored, and the loss does not "
                          "shift its labels"
               : "";
  return shiftsItself && offset > 0
             ? concat(holder,
                      ", and the loss shifts its labels itself: it predicts ",
                      offset + 1, " positions ahead")
             : holder + "; expected those of the " +
                   (shiftsItself ? "same" : "next") + " position";
}

std::optional<int64_t> ShiftFacts::proven(const Port &labelsPort) const {
  std::optional<int64_t> best;
  for (int64_t offset :
       {expectedOffset(labelsPort), int64_t(-1), int64_t(0), int64_t(1),
        int64_t(2), int64_t(-2), int64_t(3), int64_t(-3)})
    if (lead(offset).isProven() &&
        (!best || lead(offset).share() > lead(*best).share()))
      best = offset;
  return best;
}

} // namespace dpc::rt
