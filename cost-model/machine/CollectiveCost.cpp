//===- CollectiveCost.cpp - Time of collectives on the levels -------------===//

#include "cost-model/machine/CollectiveCost.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>

namespace dpc::cost {

int64_t GroupPlacement::size() const {
  return std::accumulate(ranksPerLevel.begin(), ranksPerLevel.end(), int64_t(1),
                         std::multiplies());
}

namespace {

/// The link of a flat algorithm, with the symbols n, b and a of the header.
struct Link {
  double n = 1;
  double b = 0;
  double a = 0;
  const Level *level = nullptr; ///< The slowest level.

  double remote() const { return (n - 1) / n; }
};

} // namespace

static Link linkAt(const Cluster &cluster, const GroupPlacement &group,
                   size_t i) {
  const Level &level = cluster.levels[i];
  return {.n = static_cast<double>(group.ranksPerLevel[i]),
          .b = level.bytesPerSecond * level.achieved / level.oversubscription,
          .a = level.latencySeconds,
          .level = &level};
}

/// Returns the levels that the group uses, innermost first.
static std::vector<size_t> activeLevels(const Cluster &cluster,
                                        const GroupPlacement &group) {
  assert(group.ranksPerLevel.size() <= cluster.levels.size() &&
         "a placement has no more levels than the cluster");
  std::vector<size_t> active;
  for (size_t i = 0; i < group.ranksPerLevel.size(); ++i)
    if (group.ranksPerLevel[i] > 1)
      active.push_back(i);
  return active;
}

/// Returns the lowest bandwidth and the largest latency of all levels.
static Link flatLink(const Cluster &cluster, const GroupPlacement &group,
                     const std::vector<size_t> &active) {
  Link flat = linkAt(cluster, group, active.front());
  for (size_t i : active) {
    Link link = linkAt(cluster, group, i);
    flat.a = std::max(flat.a, link.a);
    if (link.b < flat.b) {
      flat.b = link.b;
      flat.level = link.level;
    }
  }
  flat.n = static_cast<double>(group.size());
  return flat;
}

static double depth(const Link &link) {
  return std::bit_width(static_cast<uint64_t>(link.n) - 1);
}

static std::optional<double> ringSeconds(Collective kind, double bytes,
                                         const Link &link) {
  double pass = (link.n - 1) * (link.a + bytes / link.n / link.b);
  switch (kind) {
  case Collective::AllReduce:
    return 2 * pass;
  case Collective::ReduceScatter:
  case Collective::AllGather:
    return pass;
  case Collective::Broadcast:
    return (link.n - 1) * link.a + bytes / link.b;
  default:
    return std::nullopt;
  }
}

static std::optional<double> treeSeconds(Collective kind, double bytes,
                                         const Link &link) {
  double pass = depth(link) * link.a + bytes / link.b;
  if (kind == Collective::AllReduce)
    return 2 * pass;
  if (kind == Collective::Broadcast)
    return pass;
  return std::nullopt;
}

static std::optional<double> directSeconds(Collective kind, double bytes,
                                           const Link &link) {
  if (kind == Collective::AllToAll) {
    double hops =
        link.level->kind == LinkKind::Ring ? std::max(1.0, link.n / 4) : 1.0;
    return link.a + hops * link.remote() * bytes / link.b;
  }
  if (kind == Collective::SendRecv) {
    double peers = static_cast<double>(link.level->span) - 1;
    double links =
        link.level->kind == LinkKind::FullMesh ? std::max(1.0, peers) : 1.0;
    return link.a + bytes / (link.b / links);
  }
  return std::nullopt;
}

static std::optional<double> inSwitchSeconds(Collective kind, double bytes,
                                             const Link &link) {
  if (!link.level->inNetworkReduction)
    return std::nullopt;
  if (kind == Collective::AllReduce)
    return 2 * link.a + bytes / link.b;
  if (kind == Collective::ReduceScatter || kind == Collective::AllGather)
    return link.a + link.remote() * bytes / link.b;
  return std::nullopt;
}

static std::optional<double> flatSeconds(Algorithm algorithm, Collective kind,
                                         double bytes, const Link &link) {
  switch (algorithm) {
  case Algorithm::Direct:
    return directSeconds(kind, bytes, link);
  case Algorithm::Ring:
    return ringSeconds(kind, bytes, link);
  case Algorithm::Tree:
    return treeSeconds(kind, bytes, link);
  case Algorithm::InSwitch:
    return inSwitchSeconds(kind, bytes, link);
  default:
    return std::nullopt;
  }
}

static double bytesSent(Algorithm algorithm, Collective kind, double bytes,
                        double n) {
  double remote = (n - 1) / n * bytes;
  if (kind == Collective::AllReduce)
    return algorithm == Algorithm::InSwitch ? bytes : 2 * remote;
  return kind == Collective::SendRecv ? bytes : remote;
}

/// Returns the seconds of the best flat algorithm and sets `algorithm` to it.
/// If `only` is set, no other algorithm is considered. If no algorithm applies,
/// `algorithm` stays None. `isOne`: the link belongs to a single level.
static double bestAtLevel(Collective kind, double bytes, const Link &link,
                          Algorithm &algorithm, bool isOne = true,
                          std::optional<Algorithm> only = {}) {
  double best = std::numeric_limits<double>::infinity();
  for (Algorithm candidate : {Algorithm::Direct, Algorithm::Ring,
                              Algorithm::Tree, Algorithm::InSwitch}) {
    // A switch only adds buffers within one level.
    if ((candidate == Algorithm::InSwitch && !isOne) ||
        (only && *only != candidate))
      continue;
    if (auto seconds = flatSeconds(candidate, kind, bytes, link);
        seconds && *seconds < best) {
      best = *seconds;
      algorithm = candidate;
    }
  }
  return best;
}

/// Distributes the bytes of a flat algorithm over the levels that they cross.
static void spreadBytes(CollectiveEstimate &estimate, double sent,
                        Collective kind, const GroupPlacement &group,
                        const std::vector<size_t> &active) {
  double n = static_cast<double>(group.size());
  if (kind == Collective::SendRecv) {
    // The message crosses the outermost level on which the two ranks differ.
    estimate.bytesPerLevel[active.back()] += sent;
    return;
  }
  double placed = 1, edges = 0;
  for (size_t i : active) {
    double ranks = static_cast<double>(group.ranksPerLevel[i]);
    double share = kind == Collective::AllToAll
                       ? placed * (ranks - 1) / (n - 1)
                       : n / (placed * ranks) * (ranks - 1) / n;
    placed *= ranks;
    // The last message of a ring crosses the outermost level.
    if (kind != Collective::AllToAll && i == active.back())
      share = 1 - edges;
    edges += share;
    estimate.bytesPerLevel[i] += sent * share;
  }
}

static CollectiveEstimate hierarchicalAllToAll(
    const Cluster &cluster, double bytes, const GroupPlacement &group,
    const std::vector<size_t> &active, CollectiveEstimate estimate) {
  double n = static_cast<double>(group.size());
  double placed = 1, latency = 0, transfer = 0;
  for (size_t i : active) {
    Link link = linkAt(cluster, group, i);
    double share = bytes * placed * (link.n - 1) / n;
    placed *= link.n;
    double hops =
        link.level->kind == LinkKind::Ring ? std::max(1.0, link.n / 4) : 1.0;
    latency += link.a;
    transfer = std::max(transfer, hops * share / link.b);
    estimate.bytesPerLevel[i] = share;
  }
  estimate.seconds = latency + transfer;
  return estimate;
}

/// Runs reduce_scatters from the inner to the outer levels, an all_reduce on
/// the outermost level, and all_gathers back.
static CollectiveEstimate
hierarchicalReduction(const Cluster &cluster, Collective kind, double bytes,
                      const GroupPlacement &group,
                      const std::vector<size_t> &active,
                      CollectiveEstimate estimate) {
  double part = bytes;
  for (size_t i : active) {
    Link link = linkAt(cluster, group, i);
    Algorithm used = Algorithm::Ring;
    bool both = kind == Collective::AllReduce && i != active.back();
    Collective step = both ? Collective::ReduceScatter : kind;
    double seconds = bestAtLevel(step, part, link, used);
    double sent = bytesSent(used, step, part, link.n);
    // The all_gather at this level costs as much as the reduce_scatter.
    estimate.seconds += both ? 2 * seconds : seconds;
    estimate.bytesPerLevel[i] = both ? 2 * sent : sent;
    if (kind != Collective::Broadcast)
      part /= link.n;
  }
  return estimate;
}

CollectiveEstimate estimateCollective(const Cluster &cluster, Collective kind,
                                      double bytes, const GroupPlacement &group,
                                      std::optional<Algorithm> only) {
  CollectiveEstimate best;
  best.bytesPerLevel.assign(cluster.levels.size(), 0.0);
  if (group.size() <= 1 || bytes <= 0)
    return best;
  // Called very often, so only the best algorithm's bytes are computed.
  std::vector<size_t> active = activeLevels(cluster, group);
  Link link = flatLink(cluster, group, active);
  best.seconds =
      bestAtLevel(kind, bytes, link, best.algorithm, active.size() == 1, only);
  if (active.size() > 1 && kind != Collective::SendRecv &&
      only.value_or(Algorithm::Hierarchical) == Algorithm::Hierarchical) {
    CollectiveEstimate none;
    none.algorithm = Algorithm::Hierarchical;
    none.bytesPerLevel = best.bytesPerLevel;
    CollectiveEstimate tiered =
        kind == Collective::AllToAll
            ? hierarchicalAllToAll(cluster, bytes, group, active, none)
            : hierarchicalReduction(cluster, kind, bytes, group, active, none);
    if (tiered.seconds < best.seconds)
      return tiered;
  }
  if (best.algorithm != Algorithm::None)
    spreadBytes(best, bytesSent(best.algorithm, kind, bytes, link.n), kind,
                group, active);
  return best;
}

GroupPlacement placeAxis(const Cluster &cluster, int64_t stride, int64_t size) {
  assert(stride >= 1 && size >= 1 && "an axis has ranks");
  GroupPlacement group;
  int64_t placed = 1, rest = size;
  for (size_t i = 0; i < cluster.levels.size(); ++i) {
    int64_t span = cluster.levels[i].span;
    bool isAll = span >= cluster.numDevices() || i + 1 == cluster.levels.size();
    int64_t ranks = isAll ? rest : 1;
    // The largest part of the axis that fits in one unit of this level.
    if (!isAll && span % (stride * placed) == 0)
      ranks = std::gcd(rest, span / (stride * placed));
    group.ranksPerLevel.push_back(ranks);
    placed *= ranks;
    rest /= ranks;
  }
  return group;
}

GroupPlacement placePair(const Cluster &cluster, int64_t first,
                         int64_t second) {
  GroupPlacement group;
  group.ranksPerLevel.assign(cluster.levels.size(), 1);
  if (first == second)
    return group;
  size_t level = 0;
  while (level + 1 < cluster.levels.size() &&
         first / cluster.levels[level].span !=
             second / cluster.levels[level].span)
    ++level;
  group.ranksPerLevel[level] = 2;
  return group;
}

} // namespace dpc::cost
