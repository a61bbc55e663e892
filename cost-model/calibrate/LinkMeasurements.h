//===- LinkMeasurements.h - Levels from measured collectives ----*- C++ -*-===//
//
// Reads the output of NVIDIA's nccl-tests (all_reduce_perf, all_gather_perf,
// reduce_scatter_perf) and of `dpc-run --measure-links`, which has the same
// layout, and finds the bandwidth and latency of the level at which the
// measured ranks meet. That is the innermost level that joins at least as many
// devices; ranks on several hosts meet at the innermost level beyond a node.
// Groups that run at the same time (nccl-tests' split masks; one rank of each
// host) each have a device's own share of the links.
//
// With the inner levels fixed, the solver finds the bandwidth for which
// `estimateCollective` gives the measured time of the largest message, then the
// latency for the smallest message, and repeats that until neither changes.
// Both are found by bisection: times fall with bandwidth and rise with latency.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_CALIBRATE_LINKMEASUREMENTS_H
#define DPC_COST_MODEL_CALIBRATE_LINKMEASUREMENTS_H

#include "cost-model/machine/CollectiveCost.h"

namespace dpc::cost {

/// The table of one collective.
struct LinkMeasurement {
  struct Sample {
    double bytes = 0; ///< As `estimateCollective` counts them.
    double seconds = 0;
  };
  std::string file;
  Collective kind = Collective::AllReduce;
  int64_t ranks = 0;           ///< Of each group.
  int64_t hosts = 0;           ///< Of each group.
  std::vector<Sample> samples; ///< Rising bytes, at least two.
};

/// Parses the output of one of these tools. Messages name `file`.
Expected<LinkMeasurement> parseLinkMeasurement(const std::string &text,
                                               const std::string &file);

/// Sets the bandwidth and latency of the measured levels. Measurements with
/// fewer hosts and ranks come first, whatever their order. Fails where no level
/// of the cluster joins as many ranks.
Status applyLinkMeasurements(Cluster &cluster,
                             std::vector<LinkMeasurement> measurements);

/// A readable table of the levels of `now` that have changed.
std::string describeLevels(const Cluster &was, const Cluster &now);

/// The text of a cluster.json (`text`) with the levels of `cluster`.
Expected<std::string> withMeasuredLevels(const std::string &text,
                                         const std::string &file,
                                         const Cluster &cluster);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_CALIBRATE_LINKMEASUREMENTS_H
