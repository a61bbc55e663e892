//===- HeterogeneousCluster.h - Groups of unlike devices ----------------*- C++
//-*-===//
//
// Ranks fill a cluster's devices in order, group by group. Where groups have
// unlike devices, the ranks of one pipeline stage mostly have like ones, and
// stages are as long as their devices are fast. Which group is first in the
// pipeline is a matter of cost: an arrangement is the same cluster with its
// groups in another order, or with some of them only.
//
// Ranks of one stage do the same work and meet in collectives: the slowest of
// their devices decides their time, the smallest memory what fits.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_MACHINE_HETEROGENEOUSCLUSTER_H
#define DPC_COST_MODEL_MACHINE_HETEROGENEOUSCLUSTER_H

#include "cost-model/machine/Placement.h"
#include "cost-model/strategy/Strategy.h"

namespace dpc::cost {

/// Whether the groups' devices are unlike.
bool isHeterogeneous(const Cluster &cluster);

/// The groups with these numbers, in this order. One line on a number that the
/// cluster does not have.
Expected<Cluster> arrangeGroups(const Cluster &cluster,
                                const std::vector<int64_t> &groups);

/// The orders of all groups that are worth a try, the usual one first: all of
/// up to four groups, of more that by rising and by falling speed. One order
/// where the groups are alike.
std::vector<std::vector<int64_t>> groupOrders(const Cluster &cluster);

/// Sets of groups to try beside all of them: of up to three groups all, of more
/// each alone. None where the groups are alike.
std::vector<std::vector<int64_t>> someGroups(const Cluster &cluster);

/// By device of arrangeGroups(cluster, groups): its place among those devices
/// in the order of `cluster`.
std::vector<int64_t> placesOfDevices(const Cluster &cluster,
                                     const std::vector<int64_t> &groups);

/// FLOP/s of the fastest `ranks` devices, in their fastest types, on average.
double meanPeak(const Cluster &cluster, int64_t ranks);

/// Seconds that what all ranks compute takes, of 1 if all devices were the
/// slowest: stages are as long as their devices are fast, and data-parallel
/// ranks take shares of the batch (BatchShares.h), where the strategy allows
/// these, in whole micro-batches. An estimate from the peaks alone.
double heterogeneousShare(const Cluster &cluster, const Strategy &strategy,
                          int64_t microBatches, DType type);

/// Makes `cluster` that of arrangeGroups and `places` that of placesOfDevices,
/// where `groups` names any. Once only.
Status arrangeInPlace(Cluster &cluster, const std::vector<int64_t> &groups,
                      std::vector<int64_t> &places);

/// What the ranks of a pipeline stage run on.
struct StageDevices {
  size_t group = 0;       ///< Of the slowest.
  double usableBytes = 0; ///< The least of any.
};

/// The devices of `stage`, a coordinate along "pp" of `order`.
StageDevices devicesOfStage(const Cluster &cluster, const RankOrder &order,
                            int64_t stage, DType type);

/// The same by data-parallel rank (row-major over "dp" and "dpi"): of those of
/// its ranks that are of `stage`.
std::vector<StageDevices> devicesOfDataRanks(const Cluster &cluster,
                                             const RankOrder &order,
                                             int64_t stage, DType type);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_MACHINE_HETEROGENEOUSCLUSTER_H
