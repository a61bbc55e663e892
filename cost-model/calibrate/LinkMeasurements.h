//===- LinkMeasurements.h - Levels from measured collectives ----*- C++ -*-===//
//
// Fits the bandwidth and latency of a link level to the output of NVIDIA's
// nccl-tests (all_reduce_perf, all_gather_perf, reduce_scatter_perf) or of
// `dpc-run --measure-links`, which has the same format. The level is the
// innermost one that joins at least as many devices as there are ranks, and
// that joins nodes if the ranks are on several hosts. If several groups of
// ranks run at the same time (split masks of nccl-tests), they share the links
// of a node, and the fit gives the bandwidth of one device.
//
// With fixed inner levels, bisection finds the bandwidth for which
// `estimateCollective` gives the measured time of the largest message, then the
// latency that gives the measured time of the smallest message. Both steps are
// repeated several times. Bisection works because a collective takes less time
// with more bandwidth, and more time with more latency.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cost-model/machine/CollectiveCost.h"

namespace dpc::cost {

struct LinkMeasurement {
  struct Sample {
    double bytes = 0; ///< As in `estimateCollective`.
    double seconds = 0;
  };
  std::string file;
  Collective kind = Collective::AllReduce;
  int64_t ranks = 0;           ///< Of each group.
  int64_t hosts = 0;           ///< Of each group.
  std::vector<Sample> samples; ///< At least two, in order of rising bytes.
};

Expected<LinkMeasurement> parseLinkMeasurement(const std::string &text,
                                               const std::string &file);

/// Sets the bandwidth and latency of the measured levels. Starts with the
/// measurements of the fewest hosts and, among these, of the fewest ranks.
/// Fails if no level of the cluster joins as many ranks as were measured.
Status applyLinkMeasurements(Cluster &cluster,
                             std::vector<LinkMeasurement> measurements);

/// Formats the levels that differ between `was` and `now` as a table.
std::string describeLevels(const Cluster &was, const Cluster &now);

/// Returns `text`, the content of the cluster.json `file`, with its levels
/// replaced by those of `cluster`.
Expected<std::string> withMeasuredLevels(const std::string &text,
                                         const std::string &file,
                                         const Cluster &cluster);

} // namespace dpc::cost
