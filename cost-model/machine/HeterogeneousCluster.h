//===- HeterogeneousCluster.h - Groups of different devices -----*- C++ -*-===//
//
// Ranks fill a cluster's devices in order, group by group. On a heterogeneous
// cluster most pipeline stages are then within one group, and fast devices have
// longer stages. An arrangement is the same cluster with its groups in a
// different order, or with only some of its groups. The search chooses an
// arrangement by cost.
//
// The ranks of a stage do the same work and synchronize in collectives. So the
// slowest device of the stage determines the time, and the smallest memory
// determines what fits.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_MACHINE_HETEROGENEOUSCLUSTER_H
#define DPC_COST_MODEL_MACHINE_HETEROGENEOUSCLUSTER_H

#include "cost-model/machine/Placement.h"
#include "cost-model/strategy/Strategy.h"

namespace dpc::cost {

/// Whether the groups have different devices.
bool isHeterogeneous(const Cluster &cluster);

/// Returns the cluster with only `groups`, in this order. Fails if a number is
/// not the index of a group.
Expected<Cluster> arrangeGroups(const Cluster &cluster,
                                const std::vector<int64_t> &groups);

/// Returns the orders of the groups to try. The order of cluster.json is first.
/// With up to four groups, these are all orders; with more groups, also the
/// orders by rising and by falling speed. If the cluster is not heterogeneous,
/// there is one order.
std::vector<std::vector<int64_t>> groupOrders(const Cluster &cluster);

/// Returns the proper subsets of the groups to try: with up to three groups all
/// of them, else each group alone. Empty if the cluster is not heterogeneous.
std::vector<std::vector<int64_t>> someGroups(const Cluster &cluster);

/// For each device of arrangeGroups(cluster, groups), its position in `cluster`
/// without the other groups.
std::vector<int64_t> placesOfDevices(const Cluster &cluster,
                                     const std::vector<int64_t> &groups);

/// The mean FLOP/s of the fastest `ranks` devices, each with its fastest type.
double meanPeak(const Cluster &cluster, int64_t ranks);

/// The time of computation relative to a cluster with the slowest devices only,
/// in (0, 1]; an estimate from the peaks alone. Fast devices get longer stages.
/// Without stages, data-parallel ranks take uneven shares of the batch
/// (BatchShares.h) in whole micro-batches, if the strategy allows uneven
/// shares.
double heterogeneousShare(const Cluster &cluster, const Strategy &strategy,
                          int64_t microBatches, DType type);

/// Replaces `cluster` by the result of arrangeGroups and `places` by the result
/// of placesOfDevices, unless `groups` is empty. Call it once.
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
