//===- HeterogeneousCluster.cpp - Groups of different devices -------------===//
#include "cost-model/machine/HeterogeneousCluster.h"
#include "cost-model/machine/ComputeCost.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

namespace dpc::cost {

static bool areEqual(const Device &a, const Device &b) {
  return a.name == b.name && a.peakFlops == b.peakFlops &&
         a.memoryBytes == b.memoryBytes &&
         a.memoryBytesPerSecond == b.memoryBytesPerSecond;
}

bool isHeterogeneous(const Cluster &cluster) {
  return std::ranges::any_of(cluster.groups, [&](const NodeGroup &group) {
    return !areEqual(group.device, cluster.groups.front().device);
  });
}

Expected<Cluster> arrangeGroups(const Cluster &cluster,
                                const std::vector<int64_t> &groups) {
  Cluster arranged = cluster;
  arranged.groups.clear();
  for (int64_t group : groups) {
    if (group < 0 || group >= static_cast<int64_t>(cluster.groups.size()))
      return Error{"--strategy: placement: no group " + std::to_string(group) +
                   " of nodes; expected numbers below " +
                   std::to_string(cluster.groups.size()) + " for " +
                   cluster.name};
    arranged.groups.push_back(cluster.groups[group]);
  }
  assert(!groups.empty() && "a cluster has a group");
  return arranged;
}

std::vector<std::vector<int64_t>> groupOrders(const Cluster &cluster) {
  std::vector<int64_t> order(cluster.groups.size());
  std::iota(order.begin(), order.end(), 0);
  std::vector<std::vector<int64_t>> orders = {order};
  if (!isHeterogeneous(cluster))
    return orders;
  constexpr size_t kFew = 4;
  if (order.size() <= kFew) {
    while (std::next_permutation(order.begin(), order.end()))
      orders.push_back(order);
    return orders;
  }
  std::ranges::stable_sort(order, {}, [&](int64_t group) {
    return cluster.groups[group].device.peak(DType::F32);
  });
  orders.push_back(order);
  std::ranges::reverse(order);
  orders.push_back(order);
  return orders;
}

std::vector<std::vector<int64_t>> someGroups(const Cluster &cluster) {
  std::vector<std::vector<int64_t>> sets;
  int64_t count = static_cast<int64_t>(cluster.groups.size());
  if (!isHeterogeneous(cluster))
    return sets;
  for (int64_t group = 0; group < count; ++group)
    sets.push_back({group});
  if (count == 3)
    for (int64_t without = 0; without < count; ++without) {
      sets.emplace_back();
      for (int64_t group = 0; group < count; ++group)
        if (group != without)
          sets.back().push_back(group);
    }
  return sets;
}

std::vector<int64_t> placesOfDevices(const Cluster &cluster,
                                     const std::vector<int64_t> &groups) {
  auto devicesOf = [&](int64_t group) {
    return cluster.groups[group].numDevices();
  };
  std::vector<int64_t> places;
  for (int64_t group : groups) {
    int64_t first = 0;
    for (int64_t other : groups)
      first += other < group ? devicesOf(other) : 0;
    for (int64_t i = 0; i < devicesOf(group); ++i)
      places.push_back(first + i);
  }
  return places;
}

Status arrangeInPlace(Cluster &cluster, const std::vector<int64_t> &groups,
                      std::vector<int64_t> &places) {
  if (groups.empty())
    return Status();
  assert(places.empty() && "arranged already");
  Expected<Cluster> arranged = arrangeGroups(cluster, groups);
  if (!arranged)
    return Error{arranged.message()};
  places = placesOfDevices(cluster, groups);
  cluster = *arranged;
  return Status();
}

double meanPeak(const Cluster &cluster, int64_t ranks) {
  std::vector<std::pair<double, int64_t>> peaks;
  peaks.reserve(cluster.groups.size());
  for (const NodeGroup &group : cluster.groups)
    peaks.emplace_back(std::ranges::max(group.device.peakFlops),
                       group.numDevices());
  std::sort(peaks.rbegin(), peaks.rend());
  double sum = 0;
  int64_t left = ranks;
  for (const auto &[peak, devices] : peaks) {
    int64_t used = std::min(left, devices);
    sum += peak * static_cast<double>(used);
    left -= used;
  }
  return sum / static_cast<double>(ranks);
}

/// Returns the smallest time in which all ranks complete `total` micro-batches
/// and each of them completes at least one. `ranks` has pairs of a number of
/// ranks and their seconds per micro-batch.
static double
secondsOfShares(const std::vector<std::pair<double, double>> &ranks,
                double total) {
  constexpr double kRounding = 1e-9;
  constexpr int kHalvings = 40;
  double speed = 0, slowest = 0;
  for (const auto &[count, seconds] : ranks) {
    speed += count / seconds;
    slowest = std::max(slowest, seconds);
  }
  auto holdsAll = [&](double time) {
    double held = 0;
    for (const auto &[count, seconds] : ranks)
      held += count * std::floor(time / seconds + kRounding);
    return held >= total * (1 - kRounding);
  };
  double least = std::max(slowest, total / speed);
  if (holdsAll(least))
    return least;
  double most = least + slowest;
  for (int i = 0; i < kHalvings; ++i) {
    double middle = (least + most) / 2;
    (holdsAll(middle) ? most : least) = middle;
  }
  return most;
}

double heterogeneousShare(const Cluster &cluster, const Strategy &strategy,
                          int64_t microBatches, DType type) {
  auto peakOf = [&](const Device &device) {
    return device.peak(computeType(device, type));
  };
  double slowest = peakOf(
      cluster.slowestDevice(computeType(cluster.groups.front().device, type)));
  auto devices = static_cast<double>(cluster.numDevices());
  std::vector<std::pair<double, double>> ranks;
  double mean = 0;
  for (const NodeGroup &group : cluster.groups) {
    double share = double(group.numDevices()) / devices;
    double peak = peakOf(group.device);
    mean += share * peak;
    ranks.emplace_back(share * double(strategy.dp), slowest / peak);
  }
  if (strategy.pp > 1)
    return slowest / mean;
  bool canShare = strategy.batchShares.isAuto && strategy.zero <= 1 &&
                  strategy.ep == 1 && strategy.dp > 1 && microBatches > 1;
  if (!canShare)
    return 1;
  auto count = static_cast<double>(microBatches);
  return std::min(1.0,
                  secondsOfShares(ranks, count * double(strategy.dp)) / count);
}

/// Devices are assigned to stages in turn, `stride` devices at a time.
static bool holdsStage(int64_t first, int64_t end, int64_t stride,
                       int64_t stages, int64_t stage) {
  int64_t from = first / stride, to = (end - 1) / stride;
  if (first >= end)
    return false;
  int64_t next = from + ((stage - from % stages) + stages) % stages;
  return next <= to;
}

std::vector<StageDevices> devicesOfDataRanks(const Cluster &cluster,
                                             const RankOrder &order,
                                             int64_t stage, DType type) {
  int64_t ranks = 1, outer = 1, inner = 1;
  for (const RankAxis &axis : order) {
    ranks *= axis.size;
    outer = axis.name == "dp" ? axis.size : outer;
    inner = axis.name == "dpi" ? axis.size : inner;
  }
  std::vector<StageDevices> devices(outer * inner);
  std::vector<bool> isKnown(devices.size(), false);
  size_t group = 0;
  int64_t left = cluster.groups[0].numDevices();
  for (int64_t rank = 0; rank < ranks; ++rank, --left) {
    for (; left == 0; ++group)
      left = cluster.groups[group + 1].numDevices();
    int64_t data = 0, ofStage = 0, stride = 1;
    for (const RankAxis &axis : order) {
      int64_t coordinate = rank / stride % axis.size;
      stride *= axis.size;
      data += axis.name == "dp" ? coordinate * inner : 0;
      data += axis.name == "dpi" ? coordinate : 0;
      ofStage = axis.name == "pp" ? coordinate : ofStage;
    }
    if (ofStage != stage)
      continue;
    const Device &device = cluster.groups[group].device;
    StageDevices &own = devices[data];
    if (!isKnown[data] ||
        device.peak(type) < cluster.groups[own.group].device.peak(type))
      own.group = group;
    own.usableBytes = isKnown[data]
                          ? std::min(own.usableBytes, device.usableBytes())
                          : device.usableBytes();
    isKnown[data] = true;
  }
  return devices;
}

StageDevices devicesOfStage(const Cluster &cluster, const RankOrder &order,
                            int64_t stage, DType type) {
  int64_t ranks = 1, stages = 1;
  for (const RankAxis &axis : order) {
    ranks *= axis.size;
    stages = axis.name == "pp" ? axis.size : stages;
  }
  int64_t stride = strideOf(order, "pp"), first = 0;
  StageDevices result;
  bool isFirst = true;
  for (size_t i = 0; i < cluster.groups.size(); ++i) {
    const NodeGroup &group = cluster.groups[i];
    int64_t end = first + group.numDevices();
    bool isUsed =
        holdsStage(first, std::min(end, ranks), stride, stages, stage);
    first = end;
    if (!isUsed)
      continue;
    const Device &slowest = cluster.groups[result.group].device;
    if (isFirst || group.device.peak(type) < slowest.peak(type))
      result.group = i;
    result.usableBytes =
        isFirst ? group.device.usableBytes()
                : std::min(result.usableBytes, group.device.usableBytes());
    isFirst = false;
  }
  return result;
}

} // namespace dpc::cost
