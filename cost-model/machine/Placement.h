//===- Placement.h - The order of mesh axes on the devices ------*- C++ -*-===//
//
// Ranks are numbered by their coordinates along the mesh axes, and devices by
// group, node and position; rank r runs on device r. The order of the axes is
// free. The innermost axis is on adjacent devices, so that its traffic uses the
// fastest links. The problem is
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
#ifndef DPC_COST_MODEL_MACHINE_PLACEMENT_H
#define DPC_COST_MODEL_MACHINE_PLACEMENT_H

#include "cost-model/machine/CollectiveCost.h"
#include "cost-model/strategy/KeyValues.h"

#include <string>
#include <vector>

namespace dpc::cost {

/// The axes that a placement may name, in the default order, innermost first.
/// "tp" means all axes of a grid, and "dp" includes "dpi", the inner axis of
/// hybrid sharding.
const std::vector<std::string_view> &placementAxes();

/// Returns the groups that the placement in `strategy`, a text of --strategy,
/// names. Empty if the text is not valid or names no groups.
std::vector<int64_t> groupsNamedIn(std::string_view strategy);

struct RankAxis {
  std::string name;
  int64_t size = 1;
};

/// Axes of ranks, innermost first.
using RankOrder = std::vector<RankAxis>;

/// The distance in ranks between neighbours along `name`.
int64_t strideOf(const RankOrder &order, std::string_view name);

/// The placement of the ranks that differ only along `axes`.
GroupPlacement placeGroup(const Cluster &cluster, const RankOrder &order,
                          const std::vector<std::string> &axes);

/// The placement of the most distant neighbours along an axis.
GroupPlacement placeNeighbours(const Cluster &cluster, const RankOrder &order,
                               std::string_view axis);

/// A collective along `axes` that runs `times` times per step. SendRecv sends
/// to a neighbour.
struct Traffic {
  Collective kind = Collective::AllReduce;
  std::vector<std::string> axes;
  double bytes = 0; ///< The `bytes` argument of estimateCollective.
  double times = 0;
};

/// The value of `order` in the problem of the file comment, in seconds per
/// step.
double trafficSeconds(const Cluster &cluster, const RankOrder &order,
                      const std::vector<Traffic> &traffic);

/// The order with the fewest seconds. On ties, `order` itself is returned if it
/// is among them, else the lexicographically first order.
RankOrder cheapestOrder(const Cluster &cluster, const RankOrder &order,
                        const std::vector<Traffic> &traffic);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_MACHINE_PLACEMENT_H
