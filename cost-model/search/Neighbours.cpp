//===- Neighbours.cpp - Strategies with small differences -----------------===//

#include "cost-model/search/Neighbours.h"

#include <bit>

namespace dpc::cost {

static constexpr int kFar = 100;

/// Returns 0 for equal numbers, 1 if one is about twice the other, else kFar.
static int octaves(int64_t a, int64_t b) {
  if (a == b)
    return 0;
  int64_t least = std::min(a, b), most = std::max(a, b);
  return most <= 2 * least && most >= 2 * least - 1 ? 1 : kFar;
}

/// Returns the distance of the degrees whose product is the number of ranks.
/// The distance is 1 if a factor of 2 moves from one degree to another.
static int movedDegrees(const Strategy &a, const Strategy &b) {
  int distance = 0, changed = 0;
  const std::pair<int64_t, int64_t> degrees[] = {
      {a.dp, b.dp}, {a.tp, b.tp}, {a.pp, b.pp}, {a.cp, b.cp}};
  for (auto [one, other] : degrees) {
    int octave = octaves(one, other);
    distance = std::max(distance, octave);
    changed += octave > 0;
  }
  return changed > 2 ? kFar : distance;
}

/// Counts the groups of keys that differ. Ignores degrees, schedules and
/// micro-batches, which the other functions compare. Each mesh has at most one
/// hybrid_shard above 1, which shards within a node.
static int changedGroups(const Strategy &a, const Strategy &b) {
  unsigned groups = 0;
  int others = 0;
  Strategy other = b;
  if (a.hybridShard > 1 && b.hybridShard > 1)
    other.hybridShard = a.hybridShard;
  visitKeys([&](const KeyInfo &key, auto field) {
    if (field(a) == field(other))
      return;
    groups |= 1U << static_cast<unsigned>(key.group);
    others += key.group == KeyGroup::Other;
  });
  for (KeyGroup group : {KeyGroup::Degrees, KeyGroup::Schedule,
                         KeyGroup::MicroBatch, KeyGroup::Other})
    groups &= ~(1U << static_cast<unsigned>(group));
  return std::popcount(groups) + others;
}

/// Returns the distance of the micro-batches: the smallest one of their sizes,
/// their numbers, and their numbers per stage. If ranks move from or to the
/// data-parallel ones, either the sizes or the numbers change.
static int microBatches(const Strategy &a, const Strategy &b) {
  return std::min(
      {octaves(a.microBatch, b.microBatch),
       octaves(a.microBatch * a.dp, b.microBatch * b.dp),
       octaves(a.microBatch * a.dp * a.pp, b.microBatch * b.dp * b.pp)});
}

/// Returns the distance of all keys except the degrees and the schedule.
static int otherKeys(const Strategy &a, const Strategy &b) {
  int distance = microBatches(a, b);
  distance += a.tp.grid != b.tp.grid;
  distance += a.cpKind != b.cpKind && a.cp > 1 && b.cp > 1;
  distance += a.ep != b.ep;
  return distance + changedGroups(a, b);
}

bool areNeighbours(const Strategy &a, const Strategy &b, int changes) {
  int distance = movedDegrees(a, b) + otherKeys(a, b);
  // A plan without stages has only one schedule.
  distance +=
      a.pp > 1 && b.pp > 1 && (a.schedule != b.schedule || a.vpp != b.vpp);
  return distance <= changes;
}

bool areNeighbourBlocks(const Strategy &a, const Strategy &b, int changes) {
  int distance = octaves(a.tp, b.tp) + octaves(a.cp, b.cp) + otherKeys(a, b);
  distance += splitsBackward(a.schedule) != splitsBackward(b.schedule);
  return distance <= changes;
}

} // namespace dpc::cost
