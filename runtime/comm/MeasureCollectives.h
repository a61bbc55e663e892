//===- MeasureCollectives.h - times of collectives --------------*- C++ -*-===//
#ifndef DPC_RUNTIME_COMM_MEASURECOLLECTIVES_H
#define DPC_RUNTIME_COMM_MEASURECOLLECTIVES_H

#include "runtime/comm/Communicator.h"

namespace dpc::rt {

/// An all_reduce (sum of f32) over all ranks, or over several groups at once.
struct CollectiveSample {
  int64_t bytes = 0;  ///< Of each rank's buffer.
  double seconds = 0; ///< Of the slowest rank, median of the runs.
};

/// Measures buffers of `bytes` (a multiple of 4) over `group`, a partition of
/// the ranks: all ranks of `comm` call it, and have the same sample.
Expected<CollectiveSample> measureAllReduce(Communicator &comm, int64_t bytes,
                                            int group = kWorldGroup);

/// The first rank of each of `hosts` (a name a rank), the second of each, and
/// so on: the groups that meet between hosts when axes of a mesh lie on their
/// levels. Empty where that is the world, or hosts have unlike many ranks.
std::vector<std::vector<int>>
peersAcrossHosts(const std::vector<std::string> &hosts);

/// The samples in the layout that NVIDIA's nccl-tests print, so that one reader
/// knows both. `hosts` names each rank's machine, `groups` the ranks that were
/// measured at once; empty: all of them together.
std::string formatAllReduce(const std::vector<CollectiveSample> &samples,
                            const std::vector<std::string> &hosts,
                            const std::vector<std::vector<int>> &groups = {});

} // namespace dpc::rt

#endif // DPC_RUNTIME_COMM_MEASURECOLLECTIVES_H
