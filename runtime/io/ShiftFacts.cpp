#include "runtime/io/ShiftFacts.h"

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
      if (isInteger(a.dtype) && isInteger(b.dtype) &&
          a.globalShape == b.globalShape && a.globalShape.size() >= 2 &&
          a.use == InputUse::Ids && isLabels(b))
        pairs.emplace_back(ids, labels);
    }
  return pairs;
}

void ShiftFacts::add(const Port &idsPort, const void *idsData,
                     const Port &labelsPort, const void *labelsData,
                     int64_t count) {
  const int64_t length = idsPort.globalShape.back();
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
    return (k > begin && idAt(k) == idAt(k - 1)) ||
           (k < last && idAt(k) == idAt(k + 1));
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
        const int64_t place = k + offset;
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

/// Returns the offset that the loss expects.
static int64_t expectedOffset(const Port &labelsPort) {
  return labelsPort.use == InputUse::ShiftedLabels ? 0 : 1;
}

bool ShiftFacts::isAsExpected(const Port &labelsPort) const {
  const int64_t expected = expectedOffset(labelsPort);
  return proven(expected) == expected;
}

std::string ShiftFacts::text(const Port &idsPort, const Port &labelsPort,
                             bool hasNext) const {
  constexpr int64_t kLeastRolled = 3; // sequences
  const bool shiftsItself = labelsPort.use == InputUse::ShiftedLabels;
  const int64_t expected = expectedOffset(labelsPort);
  const std::optional<int64_t> offset = proven(expected);
  if (!offset)
    return "";
  const std::string holder = "input '" + oneLine(labelsPort.name) +
                             "' holds the ids " + placeText(*offset);
  if (auto found = labelsPort.reaction.ahead.find(idsPort.name);
      !shiftsItself && *offset > 0 &&
      found != labelsPort.reaction.ahead.end() && *offset <= found->second)
    return holder + ", which the scores of each position depend on: the model "
                    "reads what it predicts; is a causal mask missing, or does "
                    "an op mix positions?";
  if (*offset == expected)
    return !shiftsItself && rolled.holds() && hasFirstIds &&
                   rolled.pairs >= kLeastRolled
               ? "the last label of each sequence of input '" +
                     oneLine(labelsPort.name) +
                     "' is the first id of the sequence: are the labels "
                     "rolled? A label without a next id should be ignored"
               : "";
  if (*offset == -1)
    return "input '" + oneLine(idsPort.name) +
           "' holds the labels of the next position: are the two swapped?";
  if (*offset == 0)
    return hasIgnored && lead(0).holds()
               ? holder + " where it is not ignored, and the loss does not "
                          "shift its labels"
               : "";
  if (hasNext && *offset > expected)
    return "";
  return shiftsItself && *offset > 0
             ? concat(holder,
                      ", and the loss shifts its labels itself: it predicts ",
                      *offset + 1, " positions ahead")
             : holder + "; expected those of the " +
                   (shiftsItself ? "same" : "next") + " position";
}

std::optional<int64_t> ShiftFacts::proven(int64_t expected) const {
  std::optional<int64_t> best;
  for (int64_t offset : {expected, int64_t(-1), int64_t(0), int64_t(1),
                         int64_t(2), int64_t(-2), int64_t(3), int64_t(-3)})
    if (lead(offset).isProven() &&
        (!best || lead(offset).share() > lead(*best).share()))
      best = offset;
  return best;
}

} // namespace dpc::rt
