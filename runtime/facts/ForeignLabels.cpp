#define XXH_INLINE_ALL
#include "runtime/facts/ForeignLabels.h"

#include "runtime/base/HostTensor.h"
#include "runtime/base/OneLine.h"
#include "runtime/base/Status.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <xxhash.h>

namespace dpc::rt {

static bool isSequence(const Port &port) {
  return isInteger(port.dtype) && port.globalShape.size() == 2;
}

std::vector<ForeignLabels> foreignLabelsOf(const std::vector<Port> &ports) {
  std::vector<ForeignLabels> found;
  for (size_t i = 0; i < ports.size(); ++i)
    for (size_t k = 0; k < ports.size(); ++k) {
      const Port &a = ports[i], &b = ports[k];
      bool areLabels =
          b.use == InputUse::Labels || b.use == InputUse::ShiftedLabels;
      if (a.use == InputUse::Ids && areLabels && isSequence(a) &&
          isSequence(b) && a.globalShape == b.globalShape && a.limit == b.limit)
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
  constexpr int64_t kLeastIds = 32; // pairs of few ids all occur
  const int64_t length = idsPort.globalShape.back();
  hasManyIds = idsPort.limit - idsPort.first >= kLeastIds;
  idBits = std::log2(
      static_cast<double>(std::max<int64_t>(idsPort.limit - idsPort.first, 1)));
  std::vector<int64_t> idRow(length), labelRow(length);
  for (int64_t begin = 0; length > 0 && begin < count && !isEnough();
       begin += length) {
    for (int64_t k = 0; k < length; ++k) {
      idRow[k] =
          static_cast<int64_t>(loadAsDouble(idsData, idsPort.dtype, begin + k));
      labelRow[k] = static_cast<int64_t>(
          loadAsDouble(labelsData, labelsPort.dtype, begin + k));
    }
    addHashes(idRow, labelRow);
    addRow(idRow, labelRow, labelsPort);
  }
}

/// Whether more samples would only take time. Few of their labels may count.
bool ForeignLabels::isEnough() const {
  constexpr int64_t kMostLabels = 1 << 16;
  constexpr size_t kMostPairs = size_t(1) << 20;
  return own.all >= kMostLabels || pairs.size() >= kMostPairs;
}

void ForeignLabels::addRow(const std::vector<int64_t> &idRow,
                           const std::vector<int64_t> &labelRow,
                           const Port &labelsPort) {
  auto counts = [&](int64_t label) { return label != labelsPort.ignored; };
  for (size_t k = 0; k + 1 < idRow.size(); ++k)
    if (idRow[k] != idRow[k + 1]) // padding is no text
      pairs.insert(pairOf(idRow[k], idRow[k + 1]));
  std::unordered_set<int64_t> now(idRow.begin(), idRow.end());
  for (size_t k = 0; k < labelRow.size(); ++k) {
    const int64_t label = labelRow[k];
    if (!counts(label))
      continue;
    blocks += k == 0 || !counts(labelRow[k - 1]) ? 1 : 0;
    if (rows == 0)
      continue;
    own.add(now.contains(label));
    foreign.add(lastIds.contains(label));
    if (k == 0)
      continue;
    const int64_t left = labelRow[k - 1], other = lastLabels[k - 1];
    if (counts(left) && left != label && counts(other) && other != label) {
      neighbours.add(pairs.contains(pairOf(left, label)));
      mixed.add(pairs.contains(pairOf(other, label)));
    }
  }
  lastIds = std::move(now);
  lastLabels = labelRow;
  ++rows;
}

/// Short rows, and those of few ids, are equal by chance.
void ForeignLabels::addHashes(const std::vector<int64_t> &idRow,
                              const std::vector<int64_t> &labelRow) {
  constexpr double kLeastBits = 40;
  constexpr size_t kLeastKinds = 4;
  const size_t count = idRow.size() - 1;
  const std::set<int64_t> kinds(labelRow.begin(), labelRow.end());
  if (kinds.size() < kLeastKinds ||
      static_cast<double>(count) * idBits < kLeastBits)
    return;
  auto hash = [&](const int64_t *values) {
    return XXH3_64bits(values, count * sizeof(int64_t));
  };
  const uint64_t same = hash(idRow.data()), next = hash(idRow.data() + 1),
                 own = hash(labelRow.data());
  idRows.insert({same, next});
  if (own != same && own != next)
    labelRows.push_back(own);
}

bool ForeignLabels::areIdsOfOthers() const {
  constexpr int64_t kLeastRows = 16;
  const auto others = static_cast<int64_t>(labelRows.size());
  if (rows < kLeastRows || 10 * others < 9 * rows)
    return false;
  return 2 * std::ranges::count_if(
                 labelRows,
                 [&](uint64_t hash) { return idRows.contains(hash); }) >
         rows;
}

bool ForeignLabels::areLikeOthers() const {
  constexpr int64_t kLeastLabels = 1000, kLeastRows = 16;
  constexpr double kLeastShare = 0.2, kLeastRatio = 2, kDeviations = 2;
  // Labels at single positions are those that a model fills in.
  if (!hasManyIds || rows < kLeastRows || neighbours.all < kLeastLabels ||
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
  return concat("input '", oneLine(labelsPort.name), "'",
                areIdsOfOthers() ? " holds the ids of other samples of input '"
                                 : " holds text like input '",
                oneLine(idsPort.name),
                "'; the labels of a sample match its own ids no better than "
                "those of another one: were the two shuffled separately?");
}

} // namespace dpc::rt
