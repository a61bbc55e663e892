//===- HeterogeneousCluster.h - Groups of different devices -----*- C++ -*-===//
//
// Ranks fill a cluster's devices in order, group by group. On a heterogeneous
// cluster most pipeline stages are then within one group, and fast devices have
// longer stages. The order of the groups is chosen by cost: an arrangement is
// the same cluster with its groups in another order, or with some groups only.
//
// The ranks of one stage do the same work and synchronize in collectives, so
// the slowest device decides their time, and the smallest memory decides what
// fits.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_MACHINE_HETEROGENEOUSCLUSTER_H
#define DPC_COST_MODEL_MACHINE_HETEROGENEOUSCLUSTER_H

#include "cost-model/machine/Placement.h"
#include "cost-model/strategy/Strategy.h"

namespace dpc::cost {

/// Whether the groups have different devices.
bool isHeterogeneous(const Cluster &cluster);

/// The cluster with these groups only, in this order. Fails on a number that no
/// group has.
Expected<Cluster> arrangeGroups(const Cluster &cluster,
                                const std::vector<int64_t> &groups);

/// The orders of all groups to try, the order of cluster.json first: all orders
/// of up to four groups, else the orders by rising and by falling speed. A
/// single order if the cluster is not heterogeneous.
std::vector<std::vector<int64_t>> groupOrders(const Cluster &cluster);

/// The proper subsets of the groups to try: all subsets of up to three groups,
/// else each group alone. None if the cluster is not heterogeneous.
std::vector<std::vector<int64_t>> someGroups(const Cluster &cluster);

/// For each device of arrangeGroups(cluster, groups), its position in `cluster`
/// without the other groups.
std::vector<int64_t> placesOfDevices(const Cluster &cluster,
                                     const std::vector<int64_t> &groups);

/// The mean FLOP/s of the fastest `ranks` devices, each with its fastest type.
double meanPeak(const Cluster &cluster, int64_t ranks);

/// The time of computation relative to a cluster with the slowest devices only,
/// in (0, 1]; an estimate from the peaks alone. Fast devices have longer
/// stages. Without stages, data-parallel ranks take uneven shares of the batch
/// (BatchShares.h) in whole micro-batches if the strategy allows that.
double heterogeneousShare(const Cluster &cluster, const Strategy &strategy,
                          int64_t microBatches, DType type);

/// Replaces `cluster` by arrangeGroups and `places` by placesOfDevices unless
/// `groups` is empty. Call it once.
Status arrangeInPlace(Cluster &cluster, const std::vector<int64_t> &groups,
                      std::vector<int64_t> &places);

/// The devices of a pipeline stage.
struct StageDevices {
  size_t group = 0;       ///< The group of the slowest device.
  double usableBytes = 0; ///< The smallest memory of the devices.
};

/// The devices of `stage`, a coordinate along "pp" of `order`.
StageDevices devicesOfStage(const Cluster &cluster, const RankOrder &order,
                            int64_t stage, DType type);

/// The devices in `stage` of each data-parallel rank, row-major over "dp" and
/// "dpi".
std::vector<StageDevices> devicesOfDataRanks(const Cluster &cluster,
                                             const RankOrder &order,
                                             int64_t stage, DType type);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_MACHINE_HETEROGENEOUSCLUSTER_H
