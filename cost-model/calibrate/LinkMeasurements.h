//===- LinkMeasurements.h - Levels from measured collectives ----*- C++ -*-===//
//
// Reads the output of NVIDIA's nccl-tests (all_reduce_perf, all_gather_perf,
// reduce_scatter_perf) and of `dpc-run --measure-links`, which has the same
// format, and fits the bandwidth and latency of the level that joins the
// measured ranks. This is the innermost level that joins at least as many
// devices as there are ranks; for ranks on several hosts, it is also beyond a
// node. Each of several groups that run at the same time (split masks of
// nccl-tests) has the links of one device.
//
// With fixed inner levels, bisection finds the bandwidth for which
// `estimateCollective` gives the measured time of the largest message, then the
// latency that gives the measured time of the smallest message. Both steps are
// repeated several times. Bisection works because times fall with the bandwidth
// and rise with the latency.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_CALIBRATE_LINKMEASUREMENTS_H
#define DPC_COST_MODEL_CALIBRATE_LINKMEASUREMENTS_H

#include "cost-model/machine/CollectiveCost.h"

namespace dpc::cost {

/// The measured times of one collective.
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

/// Parses the output of a tool. Messages name `file`.
Expected<LinkMeasurement> parseLinkMeasurement(const std::string &text,
                                               const std::string &file);

/// Sets the bandwidth and latency of the measured levels. Measurements with few
/// hosts, and among these with few ranks, come first. Fails if no level of the
/// cluster joins as many ranks as were measured.
Status applyLinkMeasurements(Cluster &cluster,
                             std::vector<LinkMeasurement> measurements);

/// A readable table of the changed levels.
std::string describeLevels(const Cluster &was, const Cluster &now);

/// Returns `text`, the content of a cluster.json, with its levels replaced by
/// those of `cluster`.
Expected<std::string> withMeasuredLevels(const std::string &text,
                                         const std::string &file,
                                         const Cluster &cluster);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_CALIBRATE_LINKMEASUREMENTS_H
