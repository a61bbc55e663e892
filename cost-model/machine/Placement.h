//===- Placement.h - Which ranks lie next to each other ---------*- C++ -*-===//
//
// Ranks are numbered by their coordinates along the mesh axes, and devices by
// group, node and position; rank r runs on device r. The order of the axes is
// free. Neighbours along the innermost axis are next to each other, so that its
// traffic uses the fastest links. The problem is
//
//   min over orders o of the axes   sum over t in traffic
//       t.times * seconds(t.kind, t.bytes, how t.axes lie on the levels in o)
//
// Orders in which all groups with traffic reach the same levels have the same
// cost, which is computed once. Tensor parallelism inside a node is not a rule:
// it follows where the tensor axis has the most traffic.
//
// As text a placement has the names of the axes, innermost first, and the
// groups of nodes in the order in which ranks fill them: "tp.dp.pp@1.0". The
// groups are optional. Axes without a name in the text follow in their usual
// order.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_MACHINE_PLACEMENT_H
#define DPC_COST_MODEL_MACHINE_PLACEMENT_H

#include "cost-model/machine/CollectiveCost.h"
#include "cost-model/strategy/KeyValues.h"

#include <string>
#include <vector>

namespace dpc::cost {

/// The axes that a placement may name, innermost first in their usual order.
/// "tp" means all sides of a grid. "dp" includes the inner part (dpi) of hybrid
/// sharding.
const std::vector<std::string_view> &placementAxes();

/// The groups of the placement in a valid text of --strategy; else empty.
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

/// The worst link between neighbours along an axis.
GroupPlacement placeNeighbours(const Cluster &cluster, const RankOrder &order,
                               std::string_view axis);

/// A collective along some axes that runs `times` times per step. SendRecv
/// sends to the neighbour.
struct Traffic {
  Collective kind = Collective::AllReduce;
  std::vector<std::string> axes;
  double bytes = 0; ///< As estimateCollective counts them.
  double times = 0;
};

/// The value of one order in the problem above, in seconds per step.
double trafficSeconds(const Cluster &cluster, const RankOrder &order,
                      const std::vector<Traffic> &traffic);

/// The order with the least seconds. Of equal orders it is `order` itself, else
/// the first one in the lexicographic order of positions.
RankOrder cheapestOrder(const Cluster &cluster, const RankOrder &order,
                        const std::vector<Traffic> &traffic);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_MACHINE_PLACEMENT_H
