//===- Placement.h - The order of mesh axes on the devices ------*- C++ -*-===//
//
// A placement is an order of the mesh axes. Ranks are numbered by their
// coordinates along the axes, with the innermost axis fastest, and devices by
// group, node and position. Rank r runs on device r, so the innermost axis is
// on adjacent devices, which have the fastest links. The best order solves
//
//   min over orders o of the axes   sum over t in traffic
//       t.times * seconds(t.kind, t.bytes, placement of t.axes in o)
//
// Orders in which all groups with traffic use the same levels have the same
// cost, which is computed once. No rule places tensor parallelism inside a
// node: the tensor axis is innermost if it has the most traffic.
//
// The text of a placement has the names of the axes, innermost first, and
// optionally the groups of nodes in the order in which ranks fill them:
// "tp.dp.pp@1.0". Axes that the text does not name follow in the default order.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cost-model/machine/CollectiveCost.h"
#include "cost-model/strategy/KeyValues.h"

#include <string>
#include <vector>

namespace dpc::cost {

/// Returns the axes that a placement may name, in the default order, innermost
/// first. "tp" includes all axes of a grid, and "dp" includes "dpi", the inner
/// axis of hybrid sharding.
const std::vector<std::string_view> &placementAxes();

/// Returns the groups of nodes that `strategy`, a text of --strategy, names in
/// its placement. Empty if the text is invalid or names no groups.
std::vector<int64_t> groupsNamedIn(std::string_view strategy);

struct RankAxis {
  std::string name;
  int64_t size = 1;
};

/// Axes of ranks, innermost first.
using RankOrder = std::vector<RankAxis>;

/// Returns how many ranks apart neighbours along `name` are.
int64_t strideOf(const RankOrder &order, std::string_view name);

/// Returns the placement of ranks that differ only along `axes`.
GroupPlacement placeGroup(const Cluster &cluster, const RankOrder &order,
                          const std::vector<std::string> &axes);

/// Returns the placement of the farthest two neighbours along `axis`.
GroupPlacement placeNeighbours(const Cluster &cluster, const RankOrder &order,
                               std::string_view axis);

/// A collective over `axes` that runs `times` times per step. For SendRecv,
/// each rank sends to its neighbour along the axis.
struct Traffic {
  Collective kind = Collective::AllReduce;
  std::vector<std::string> axes;
  double bytes = 0; ///< The `bytes` argument of estimateCollective.
  double times = 0;
};

/// Returns the seconds per step of all collectives if axes have this order.
double trafficSeconds(const Cluster &cluster, const RankOrder &order,
                      const std::vector<Traffic> &traffic);

/// Returns the order with the fewest seconds. On ties, returns `order` if it is
/// one of the best, else the lexicographically first order.
RankOrder cheapestOrder(const Cluster &cluster, const RankOrder &order,
                        const std::vector<Traffic> &traffic);

} // namespace dpc::cost
