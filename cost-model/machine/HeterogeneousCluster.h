//===- HeterogeneousCluster.h - Groups of different devices -----*- C++ -*-===//
//
// Ranks fill the devices of a cluster in order, group by group. Most pipeline
// stages of a heterogeneous cluster are then within one group, and fast devices
// have longer stages. An arrangement is the same cluster with its groups in a
// different order, or with only some of its groups. The search chooses an
// arrangement by cost.
//
// The ranks of a stage do the same work and synchronize in collectives. So the
// slowest device of the stage determines the time, and the smallest memory
// determines what fits.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cost-model/machine/Placement.h"
#include "cost-model/strategy/Strategy.h"

namespace dpc::cost {

bool isHeterogeneous(const Cluster &cluster);

/// Returns the cluster with only `groups`, in this order. Fails if a number is
/// not the index of a group.
Expected<Cluster> arrangeGroups(const Cluster &cluster,
                                const std::vector<int64_t> &groups);

/// Returns the orders of the groups to try. The first order is the order of
/// cluster.json. With up to four groups, all other orders follow; with more
/// groups, only the orders by rising and by falling speed. A cluster that is
/// not heterogeneous has one order.
std::vector<std::vector<int64_t>> groupOrders(const Cluster &cluster);

/// Returns the proper subsets of the groups to try: all subsets of up to three
/// groups, else each group alone. Empty if the cluster is not heterogeneous.
std::vector<std::vector<int64_t>> someGroups(const Cluster &cluster);

/// Returns, for each device of arrangeGroups(cluster, groups), its number in
/// the order of `cluster`. Only the devices of `groups` are numbered.
std::vector<int64_t> placesOfDevices(const Cluster &cluster,
                                     const std::vector<int64_t> &groups);

/// Returns the mean FLOP/s of the fastest `ranks` devices, each with its
/// fastest type.
double meanPeak(const Cluster &cluster, int64_t ranks);

/// Returns the estimated time of computation relative to a cluster of only the
/// slowest devices, in (0, 1]. The estimate uses only the peaks. Fast devices
/// get longer stages. Without stages, data-parallel ranks take uneven shares of
/// the batch in whole micro-batches (BatchShares.h), if the strategy allows
/// uneven shares.
double heterogeneousShare(const Cluster &cluster, const Strategy &strategy,
                          int64_t microBatches, DType type);

/// Unless `groups` is empty, replaces `cluster` by the result of arrangeGroups
/// and `places` by the result of placesOfDevices. Must not be called twice for
/// a cluster.
Status arrangeInPlace(Cluster &cluster, const std::vector<int64_t> &groups,
                      std::vector<int64_t> &places);

struct StageDevices {
  size_t group = 0;       ///< The group of the slowest device.
  double usableBytes = 0; ///< The usable bytes of the smallest device.
};

/// Returns the devices of the stage with coordinate `stage` along the axis "pp"
/// of `order`.
StageDevices devicesOfStage(const Cluster &cluster, const RankOrder &order,
                            int64_t stage, DType type);

/// Returns, for each data-parallel rank, its devices in `stage`. The ranks are
/// in row-major order over the axes "dp" and "dpi".
std::vector<StageDevices> devicesOfDataRanks(const Cluster &cluster,
                                             const RankOrder &order,
                                             int64_t stage, DType type);

} // namespace dpc::cost
