//===- MeasureCollectives.h - measured times of collectives -----*- C++ -*-===//
#ifndef DPC_RUNTIME_COMM_MEASURECOLLECTIVES_H
#define DPC_RUNTIME_COMM_MEASURECOLLECTIVES_H

#include "runtime/comm/Communicator.h"

namespace dpc::rt {

/// A measured all_reduce (a sum of f32) over all ranks, or over several groups
/// at the same time.
struct CollectiveSample {
  int64_t bytes = 0;  ///< size of each rank's buffer
  double seconds = 0; ///< time of the slowest rank, median of the runs
};

/// Measures an all_reduce of `bytes` (a multiple of 4) in all cells of `group`.
/// All ranks call this and get the same sample.
Expected<CollectiveSample> measureAllReduce(Communicator &comm, int64_t bytes,
                                            int group = kWorldGroup);

/// The groups of a mesh axis that spans hosts: the first ranks of all hosts
/// form a group, the second ranks of all hosts form another, and so on. `hosts`
/// is the host of each rank. Empty if the world is the only group, or if hosts
/// have different numbers of ranks.
std::vector<std::vector<int>>
peersAcrossHosts(const std::vector<std::string> &hosts);

/// Formats the samples like the output of NVIDIA's nccl-tests, so that one
/// reader handles both. `hosts` is the host of each rank. `groups` are the
/// measured groups; empty means the world.
std::string formatAllReduce(const std::vector<CollectiveSample> &samples,
                            const std::vector<std::string> &hosts,
                            const std::vector<std::vector<int>> &groups = {});

} // namespace dpc::rt

#endif // DPC_RUNTIME_COMM_MEASURECOLLECTIVES_H
