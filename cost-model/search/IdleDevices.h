//===- IdleDevices.h - Plans that leave devices idle ------------*- C++ -*-===//
//
// A plan may leave devices idle. The part of a cluster that a plan uses has the
// same number of devices on each of its nodes, or all devices of a node that
// has fewer. The search solves
//
//   minimize  value(s)  over  p in parts(c), s in strategies(p)
//
// where the parts of c are (I1) c itself and (I2) all `nodes` x `perNode` with
// nodes <= nodes(c) and perNode <= devices of the largest node of c. If devices
// or nodes are added to a cluster, its old parts remain parts with equal
// results. So adding a device never makes the result worse.
//
// Large clusters have too many parts, and a search that skips candidates
// (SearchResult::skipped) is not exact. These rules limit the work on them:
//   (I3) Parts have 2^a or 3 * 2^a whole nodes, or 2^a devices of one node.
//        If the number of nodes has a prime factor above 7, a part with the
//        largest smaller number of nodes without such a factor is added.
//   (I4) A part is left out if its computation alone takes longer than the best
//        step so far: that of one device with the whole batch, whose kernels
//        are the largest, divided by the devices; all FLOPs at the peak if it
//        is unknown. On many devices that are busy (kernels are longer than
//        their launches, and ranks have samples), computation on r of n devices
//        takes n / r times as long.
//   (I5) The searches of all parts together take about as long as the search
//        of c. On many devices, the keys that split a block (tp, cp, ep, sp,
//        zero, recompute) are as in the best plan so far. Afterwards at most
//        three parts whose plans are within a tenth of the best, or better than
//        those of c, are searched like c. So is the largest part of (I3): on
//        129 nodes, the best plan uses 128 nodes rather than 43 stages.
//   (I6) On more than a few devices, a plan that is 1.15 times as slow as the
//        best so far is not evaluated exactly. If each device has eight
//        samples, the search of a part ends after its first plan if this plan
//        is 1.3 times as slow as the best so far. If the best plan of a part is
//        twice as slow as the best so far, smaller parts are not tried, because
//        they would be even slower.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cost-model/search/Search.h"
#include "cost-model/search/SearchSpace.h"

#include <functional>
#include <memory>

namespace dpc::cost {

/// The first `perNode` devices of each of the first `nodes` nodes. A node with
/// fewer devices contributes all of them.
struct ClusterPart {
  int64_t nodes = 1;
  int64_t perNode = 1;

  bool operator==(const ClusterPart &) const = default;
};

int64_t devicesOf(const Cluster &cluster, const ClusterPart &part);

bool isWhole(const Cluster &cluster, const ClusterPart &part);

Cluster partOf(const Cluster &cluster, const ClusterPart &part);

/// Returns the parts of (I2), or of (I3) on a large cluster, without the whole
/// cluster. Parts with more devices come first.
std::vector<ClusterPart> partsToTry(const Cluster &cluster);

/// Returns the parts with exactly `ranks` devices, including the whole cluster.
/// Parts with fewer nodes come first.
std::vector<ClusterPart> partsOf(const Cluster &cluster, int64_t ranks);

/// Creates the evaluator and the options for the search of one part.
struct PartProblem {
  /// The argument outlives the evaluator.
  std::function<std::unique_ptr<Evaluator>(const Cluster &)> evaluator;
  std::function<SearchOptions(Evaluator &, const Cluster &)> options;
};

struct PartResult {
  SearchResult search;
  Cluster used; ///< The part that the winner uses.
};

/// Returns the best plan of all parts with `request.ranks` devices. If `ranks`
/// is unset, the plan uses all devices if `request` fixes a degree; otherwise,
/// all parts are searched. Fails if no part has `ranks` devices.
Expected<PartResult> searchParts(const Cluster &cluster,
                                 const StrategyRequest &request,
                                 const PartProblem &problem);

} // namespace dpc::cost
