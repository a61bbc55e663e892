#include "runtime/io/ForeignLabels.h"

#include "runtime/base/HostTensor.h"
#include "runtime/base/OneLine.h"
#include "runtime/base/Status.h"

#include <algorithm>
#include <cmath>

namespace dpc::rt {

static bool isSequence(const Port &port) {
  return isInteger(port.dtype) && port.globalShape.size() == 2;
}

std::vector<ForeignLabels> foreignLabelsOf(const std::vector<Port> &ports) {
  constexpr int64_t kLeastIds = 32; // pairs of few ids all occur
  std::vector<ForeignLabels> found;
  for (size_t i = 0; i < ports.size(); ++i)
    for (size_t k = 0; k < ports.size(); ++k) {
      const Port &a = ports[i], &b = ports[k];
      bool areLabels =
          b.use == InputUse::Labels || b.use == InputUse::ShiftedLabels;
      if (a.use == InputUse::Ids && areLabels && isSequence(a) &&
          isSequence(b) && a.globalShape == b.globalShape &&
          a.limit == b.limit && a.limit - a.first >= kLeastIds)
        found.emplace_back(i, k);
    }
  return found;
}

static uint64_t pairOf(int64_t first, int64_t second) {
  return static_cast<uint64_t>(first) << 32 ^ static_cast<uint64_t>(second);
}

void ForeignLabels::add(const Port &idsPort, const void *idsData,
                        const Port &labelsPort, const void *labelsData,
                        int64_t count) {
  constexpr int64_t kMostLabels = 1 << 16; // enough to tell
  const int64_t length = idsPort.globalShape.back();
  std::vector<int64_t> idRow(length), labelRow(length);
  for (int64_t begin = 0; length > 0 && begin < count && own.all < kMostLabels;
       begin += length) {
    for (int64_t k = 0; k < length; ++k) {
      idRow[k] =
          static_cast<int64_t>(loadAsDouble(idsData, idsPort.dtype, begin + k));
      labelRow[k] = static_cast<int64_t>(
          loadAsDouble(labelsData, labelsPort.dtype, begin + k));
    }
    addRow(idRow, labelRow, labelsPort);
  }
}

void ForeignLabels::addRow(const std::vector<int64_t> &idRow,
                           const std::vector<int64_t> &labelRow,
                           const Port &labelsPort) {
  auto counts = [&](int64_t label) { return label != labelsPort.ignored; };
  for (size_t k = 0; k + 1 < idRow.size(); ++k)
    if (idRow[k] != idRow[k + 1]) // padding is no text
      pairs.insert(pairOf(idRow[k], idRow[k + 1]));
  std::unordered_set<int64_t> now(idRow.begin(), idRow.end());
  std::unordered_set<int64_t> before(lastIds.begin(), lastIds.end());
  for (size_t k = 0; k < labelRow.size(); ++k) {
    const int64_t label = labelRow[k];
    if (!counts(label))
      continue;
    blocks += k == 0 || !counts(labelRow[k - 1]) ? 1 : 0;
    if (rows == 0)
      continue;
    own.add(now.contains(label));
    foreign.add(before.contains(label));
    if (k == 0)
      continue;
    const int64_t left = labelRow[k - 1], other = lastLabels[k - 1];
    if (counts(left) && left != label && counts(other) && other != label) {
      neighbours.add(pairs.contains(pairOf(left, label)));
      mixed.add(pairs.contains(pairOf(other, label)));
    }
  }
  lastIds = idRow;
  lastLabels = labelRow;
  ++rows;
}

bool ForeignLabels::isProven() const {
  constexpr int64_t kLeastLabels = 1000, kLeastRows = 16;
  constexpr double kLeastShare = 0.2, kLeastRatio = 2, kDeviations = 2;
  // Labels at single positions are those that a model fills in.
  if (rows < kLeastRows || neighbours.all < kLeastLabels ||
      10 * blocks > 11 * rows)
    return false;
  double expected = foreign.value();
  double deviation =
      std::sqrt(2 * expected * (1 - expected) / static_cast<double>(own.all));
  return neighbours.value() >= kLeastShare &&
         neighbours.value() >= kLeastRatio * mixed.value() && expected < 0.9 &&
         own.value() <= expected + kDeviations * deviation;
}

std::string ForeignLabels::text(const Port &idsPort,
                                const Port &labelsPort) const {
  return concat("input '", oneLine(labelsPort.name),
                "' holds sequences like those of input '",
                oneLine(idsPort.name),
                "', but of no sample more than of the sample before: do the "
                "labels belong to other samples?");
}

} // namespace dpc::rt
