//===- LinkMeasurements.h - Levels from measured collectives ----*- C++ -*-===//
//
// Reads what NVIDIA's nccl-tests print (all_reduce_perf, all_gather_perf,
// reduce_scatter_perf), and what `dpc-run --measure-links` writes in that
// layout, and finds the bandwidth and latency of the level that the measured
// ranks meet at: of all levels those that join at least as many devices, the
// innermost; ranks on several hosts meet at the innermost one past a node. Of
// groups that are measured at once (nccl-tests' split masks; one rank of each
// host) each has a device's own share of the links.
//
// Found by the model itself: with the inner levels as they are, the bandwidth
// that makes `estimateCollective` of the largest message as long as it was
// measured, then the latency that does so for the smallest; in turn, until
// neither changes. Both are searched by bisection (times fall with bandwidth
// and rise with latency).
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_CALIBRATE_LINKMEASUREMENTS_H
#define DPC_COST_MODEL_CALIBRATE_LINKMEASUREMENTS_H

#include "cost-model/machine/CollectiveCost.h"

namespace dpc::cost {

/// One table of one collective.
struct LinkMeasurement {
  struct Sample {
    double bytes = 0; ///< As `estimateCollective` counts them.
    double seconds = 0;
  };
  std::string file;
  Collective kind = Collective::AllReduce;
  int64_t ranks = 0;           ///< Of one group; groups are measured at once.
  int64_t hosts = 0;           ///< Of one group.
  std::vector<Sample> samples; ///< Rising bytes, at least two.
};

/// Parses the text of such a file; `file` is only used in messages.
Expected<LinkMeasurement> parseLinkMeasurement(const std::string &text,
                                             const std::string &file);

/// Sets bandwidth and latency of the levels that were measured; those on fewer
/// hosts and with fewer ranks first, whatever their order. Fails where no level
/// of the cluster joins as many ranks.
Status applyLinkMeasurements(Cluster &cluster,
                             std::vector<LinkMeasurement> measurements);

/// A table for people: levels of `now` that are not as they were.
std::string describeLevels(const Cluster &was, const Cluster &now);

/// The text of a cluster.json (`text`) with the levels of `cluster`.
Expected<std::string> withMeasuredLevels(const std::string &text,
                                       const std::string &file,
                                       const Cluster &cluster);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_CALIBRATE_LINKMEASUREMENTS_H
