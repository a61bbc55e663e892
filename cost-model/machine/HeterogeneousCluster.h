//===- HeterogeneousCluster.h - Groups of different devices -----*- C++ -*-===//
//
// Ranks fill a cluster's devices in order, group by group. On a heterogeneous
// cluster most pipeline stages then lie within one group, and the length of a
// stage follows the speed of its devices. The cost decides which group comes
// first in the pipeline: an arrangement is the same cluster with its groups in
// another order, or with some of the groups only.
//
// The ranks of one stage do the same work and meet in collectives: their
// slowest device decides their time, their smallest memory decides what fits.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_MACHINE_HETEROGENEOUSCLUSTER_H
#define DPC_COST_MODEL_MACHINE_HETEROGENEOUSCLUSTER_H

#include "cost-model/machine/Placement.h"
#include "cost-model/strategy/Strategy.h"

namespace dpc::cost {

/// Whether the groups have different devices.
bool isHeterogeneous(const Cluster &cluster);

/// The cluster with these groups only, in this order. Fails in one line on a
/// number that no group has.
Expected<Cluster> arrangeGroups(const Cluster &cluster,
                                const std::vector<int64_t> &groups);

/// The orders of all groups to try, the order of cluster.json first: all orders
/// of up to four groups; of more groups the orders by rising and by falling
/// speed. One order where the cluster is not heterogeneous.
std::vector<std::vector<int64_t>> groupOrders(const Cluster &cluster);

/// The proper subsets of the groups to try: all subsets of up to three groups;
/// of more groups each one alone. None where the cluster is not heterogeneous.
std::vector<std::vector<int64_t>> someGroups(const Cluster &cluster);

/// For each device of arrangeGroups(cluster, groups) its position among the
/// same devices in the order of `cluster`.
std::vector<int64_t> placesOfDevices(const Cluster &cluster,
                                     const std::vector<int64_t> &groups);

/// The mean FLOP/s of the fastest `ranks` devices, each in its fastest type.
double meanPeak(const Cluster &cluster, int64_t ranks);

/// The time of all ranks' computation, relative to that on a cluster with the
/// slowest devices only. The length of stages follows the speed of their
/// devices; without stages data-parallel ranks take uneven shares of the batch
/// (BatchShares.h) in whole micro-batches, where the strategy allows that. An
/// estimate from the peaks alone, in (0, 1].
double heterogeneousShare(const Cluster &cluster, const Strategy &strategy,
                          int64_t microBatches, DType type);

/// Replaces `cluster` by arrangeGroups and `places` by placesOfDevices unless
/// `groups` is empty. Call it once.
Status arrangeInPlace(Cluster &cluster, const std::vector<int64_t> &groups,
                      std::vector<int64_t> &places);

/// The devices of a pipeline stage.
struct StageDevices {
  size_t group = 0;       ///< The group of the slowest device.
  double usableBytes = 0; ///< The smallest of all devices.
};

/// The devices of `stage`, a coordinate along "pp" of `order`.
StageDevices devicesOfStage(const Cluster &cluster, const RankOrder &order,
                            int64_t stage, DType type);

/// The same for each data-parallel rank (row-major over "dp" and "dpi"),
/// limited to its ranks in `stage`.
std::vector<StageDevices> devicesOfDataRanks(const Cluster &cluster,
                                             const RankOrder &order,
                                             int64_t stage, DType type);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_MACHINE_HETEROGENEOUSCLUSTER_H
