//===- Placement.h - Which ranks lie next to each other ---------*- C++ -*-===//
//
// Ranks are numbered by the coordinates along the axes of a mesh, and rank by
// rank put on the devices of a cluster, which are numbered through: node by
// node, group by group. In which order the axes count is a matter of cost only:
// neighbours along the innermost axis are next to each other, so its traffic
// stays on the fastest link. The problem is
//
//   min over orders o of the axes   sum over t in traffic
//       t.times * seconds(t.kind, t.bytes, how t.axes lie on the levels in o)
//
// Orders in which all groups with traffic reach the same levels are equal, so
// that each such class is priced once. Tensor parallelism inside a node is not
// a rule: it is what costs least where its traffic is the most.
//
// Text: the axes' names, innermost first, then the groups of nodes in the order
// in which ranks fill them, if not as in cluster.json: "tp.dp.pp@1.0". Axes
// that are not named lie outside of those that are, in their usual order.
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
/// "tp" stands for all sides of a grid, "dp" for the part that has a name of
/// its own (dpi) only inside of hybrid sharding too.
const std::vector<std::string_view> &placementAxes();

/// The groups that a text of --strategy names, if it does and is right.
std::vector<int64_t> groupsNamedIn(std::string_view strategy);

struct RankAxis {
  std::string name;
  int64_t size = 1;
};

/// Axes of ranks, innermost first.
using RankOrder = std::vector<RankAxis>;

/// Ranks between neighbours along `name`.
int64_t strideOf(const RankOrder &order, std::string_view name);

/// How the ranks that differ along `axes` only lie on the levels.
GroupPlacement placeGroup(const Cluster &cluster, const RankOrder &order,
                          const std::vector<std::string> &axes);

/// The worst link between neighbours along an axis.
GroupPlacement placeNeighbours(const Cluster &cluster, const RankOrder &order,
                               std::string_view axis);

/// What ranks send along some axes, `times` times a step. SendRecv goes to the
/// neighbour.
struct Traffic {
  Collective kind = Collective::AllReduce;
  std::vector<std::string> axes;
  double bytes = 0; ///< As estimateCollective counts them.
  double times = 0;
};

/// The sum of the file comment for one order.
double trafficSeconds(const Cluster &cluster, const RankOrder &order,
                      const std::vector<Traffic> &traffic);

/// The order with the least seconds; `order` itself unless another one takes
/// less, then the first in lexicographic order of positions.
RankOrder cheapestOrder(const Cluster &cluster, const RankOrder &order,
                        const std::vector<Traffic> &traffic);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_MACHINE_PLACEMENT_H
