//===- IdleDevices.h - Plans that leave devices idle ------------*- C++ -*-===//
//
// A plan need not use all devices. The part of a cluster that one uses has the
// same number of devices on each of its nodes, or all of a node that has fewer,
// and what is searched is
//
//   minimize  value(s)  over  p in parts(c), s in strategies(p)
//
// where the parts of c are (I1) c itself and (I2) all `nodes` x `perNode` with
// nodes <= nodes(c) and perNode <= devices of the largest node of c. A part of
// a cluster is, to the last bit, a part of the same cluster with more devices
// or nodes: so that an answer never gets worse when a device is added.
//
// Large clusters have too many parts, and a search that could not look at
// everything (SearchResult::skipped) is not exact as it is. There
//   (I3) nodes are counted in 2^a and 3 * 2^a, devices of one node in 2^a; and
//        where the number of nodes has a prime factor above 7, the largest
//        below it that has none;
//   (I4) parts are left out in which computation alone takes longer than the
//        best step so far: on r devices n / r times as long as on n, where it
//        keeps those busy (on few devices half of that: larger kernels are
//        faster); else, as where kernels are shorter than their launches or
//        ranks have no sample, what products take at the peak;
//   (I5) what splits a block (tp, cp, ep, sp, zero, recompute) is as the best
//        so far has it: only dp, pp, the schedule and micro-batches are
//        searched, in all parts together about as long as on c. All is, once
//        more, on the parts that come within a tenth of the best, three at
//        most, and on the largest of (I3): who adds one node to 128 does not
//        want 43 stages;
//   (I6) on more than a few devices the best plan of a part is not looked at
//        closer where it is 1.15 times as slow as the best so far. Where each
//        device has eight samples, the search of a part ends with its first
//        plan if that is 1.3 times as slow, and parts smaller than one whose
//        best is twice as slow are not tried: what is lost with fewer devices
//        does not come back with still fewer.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_SEARCH_IDLEDEVICES_H
#define DPC_COST_MODEL_SEARCH_IDLEDEVICES_H

#include "cost-model/search/Search.h"

#include <functional>
#include <memory>

namespace dpc::cost {

/// Clusters of up to so many devices have all their parts tried.
inline constexpr int64_t kFewDevices = 16;

/// So many devices on each of so many nodes, the first of the cluster; nodes
/// that have fewer give all of theirs.
struct ClusterPart {
  int64_t nodes = 1;
  int64_t perNode = 1;

  bool operator==(const ClusterPart &) const = default;
};

/// How many devices `part` is.
int64_t devicesOf(const Cluster &cluster, const ClusterPart &part);

/// Whether `part` is all of `cluster`.
bool isWhole(const Cluster &cluster, const ClusterPart &part);

/// The cluster as one sees it who uses a part of it only.
Cluster partOf(const Cluster &cluster, const ClusterPart &part);

/// (I2), or (I3) where there are many: without the whole, falling devices.
std::vector<ClusterPart> partsToTry(const Cluster &cluster);

/// The parts of exactly `ranks` devices, the whole included; fewest nodes
/// first.
std::vector<ClusterPart> partsOf(const Cluster &cluster, int64_t ranks);

/// What several searches did in all.
struct SearchCounts {
  double seconds = 0;
  int64_t considered = 0, pruned = 0, skipped = 0;

  void add(const SearchResult &result);
  /// Makes them those of `result`.
  void writeTo(SearchResult &result) const;
};

/// What is searched on one part.
struct PartProblem {
  /// The cluster outlives what is made.
  std::function<std::unique_ptr<Evaluator>(const Cluster &)> evaluator;
  std::function<SearchOptions(Evaluator &, const Cluster &)> options;
};

/// The best of all parts, and the part it is for. Where degrees that make ranks
/// are named (StrategyRequest::namesRanks) all devices are used; where `ranks`
/// is, so many. Fails in one line when no part has so many.
struct PartResult {
  SearchResult search;
  Cluster used;
};
Expected<PartResult> searchParts(const Cluster &cluster,
                                 const StrategyRequest &request,
                                 const PartProblem &problem);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_SEARCH_IDLEDEVICES_H
