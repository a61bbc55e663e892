//===- Placement.cpp - The order of mesh axes on the devices --------------===//

#include "cost-model/machine/Placement.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <numeric>

namespace dpc::cost {

const std::vector<std::string_view> &placementAxes() {
  static const std::vector<std::string_view> axes = {"tp",  "cp", "ep",
                                                     "dpi", "dp", "pp"};
  return axes;
}

std::vector<int64_t> groupsNamedIn(std::string_view strategy) {
  constexpr std::string_view key = "placement=";
  for (size_t begin = 0; begin < strategy.size();) {
    size_t end = std::min(strategy.find(',', begin), strategy.size());
    std::string_view part = strategy.substr(begin, end - begin);
    if (part.substr(0, key.size()) == key)
      if (auto placement =
              parseValue<PlacementSpec>("placement", part.substr(key.size())))
        return placement->groups;
    begin = end + 1;
  }
  return {};
}

int64_t strideOf(const RankOrder &order, std::string_view name) {
  int64_t stride = 1;
  for (const RankAxis &axis : order) {
    if (axis.name == name)
      break;
    stride *= axis.size;
  }
  return stride;
}

GroupPlacement placeGroup(const Cluster &cluster, const RankOrder &order,
                          const std::vector<std::string> &axes) {
  GroupPlacement group;
  group.ranksPerLevel.assign(cluster.levels.size(), 1);
  // Adjacent axes count as one axis of `size` ranks with stride `first`.
  int64_t stride = 1, first = 1, size = 1;
  auto place = [&] {
    GroupPlacement part = placeAxis(cluster, first, size);
    for (size_t i = 0; i < part.ranksPerLevel.size(); ++i)
      group.ranksPerLevel[i] *= part.ranksPerLevel[i];
    size = 1;
  };
  for (const RankAxis &axis : order) {
    bool isWanted = std::ranges::find(axes, axis.name) != axes.end();
    if (!isWanted && axis.size > 1)
      place();
    if (isWanted) {
      first = size == 1 ? stride : first;
      size *= axis.size;
    }
    stride *= axis.size;
  }
  place();
  return group;
}

GroupPlacement placeNeighbours(const Cluster &cluster, const RankOrder &order,
                               std::string_view axis) {
  GroupPlacement group = placeGroup(cluster, order, {std::string(axis)});
  bool isOutermost = true;
  for (auto it = group.ranksPerLevel.rbegin(); it != group.ranksPerLevel.rend();
       ++it) {
    *it = *it > 1 && isOutermost ? 2 : 1;
    isOutermost &= *it == 1;
  }
  return group;
}

static GroupPlacement placementOf(const Cluster &cluster,
                                  const RankOrder &order,
                                  const Traffic &traffic) {
  return traffic.kind == Collective::SendRecv && traffic.axes.size() == 1
             ? placeNeighbours(cluster, order, traffic.axes.front())
             : placeGroup(cluster, order, traffic.axes);
}

double trafficSeconds(const Cluster &cluster, const RankOrder &order,
                      const std::vector<Traffic> &traffic) {
  double seconds = 0;
  for (const Traffic &one : traffic)
    seconds += one.times * estimateCollective(cluster, one.kind, one.bytes,
                                              placementOf(cluster, order, one))
                               .seconds;
  return seconds;
}

RankOrder cheapestOrder(const Cluster &cluster, const RankOrder &order,
                        const std::vector<Traffic> &traffic) {
  std::vector<size_t> positions;
  for (size_t i = 0; i < order.size(); ++i)
    if (order[i].size > 1)
      positions.push_back(i);
  if (positions.size() < 2 || cluster.levels.size() < 2)
    return order;
  // The levels that a collective uses depend on its axes and on whether it is a
  // SendRecv. The cost of an order depends only on these levels.
  std::vector<Traffic> groups;
  for (const Traffic &one : traffic) {
    bool isKnown = std::ranges::any_of(groups, [&](const Traffic &other) {
      return other.axes == one.axes && (other.kind == Collective::SendRecv) ==
                                           (one.kind == Collective::SendRecv);
    });
    if (!isKnown)
      groups.push_back(one);
  }
  std::map<std::vector<std::vector<int64_t>>, double> priced;
  RankOrder best = order;
  double least = trafficSeconds(cluster, order, traffic);
  do {
    RankOrder next;
    next.reserve(positions.size());
    for (size_t i : positions)
      next.push_back(order[i]);
    std::vector<std::vector<int64_t>> reach;
    reach.reserve(groups.size());
    for (const Traffic &one : groups)
      reach.push_back(placementOf(cluster, next, one).ranksPerLevel);
    auto [it, isNew] = priced.try_emplace(std::move(reach), 0.0);
    if (!isNew)
      continue;
    it->second = trafficSeconds(cluster, next, traffic);
    constexpr double kEqual = 1e-9;
    if (it->second < least * (1 - kEqual)) {
      least = it->second;
      best = std::move(next);
    }
  } while (std::next_permutation(positions.begin(), positions.end()));
  return best;
}

} // namespace dpc::cost
