//===- MeasureCollectives.h - measured times of collectives -----*- C++ -*-===//
#ifndef DPC_RUNTIME_COMM_MEASURECOLLECTIVES_H
#define DPC_RUNTIME_COMM_MEASURECOLLECTIVES_H

#include "runtime/comm/Communicator.h"

namespace dpc::rt {

/// A measured all_reduce (sum of f32) over all ranks, or over several groups at
/// once.
struct CollectiveSample {
  int64_t bytes = 0;  ///< of each rank's buffer
  double seconds = 0; ///< of the slowest rank, median of the runs
};

/// Measures buffers of `bytes` (a multiple of 4) over `group`, a partition of
/// the ranks. All ranks of `comm` call this and get the same sample.
Expected<CollectiveSample> measureAllReduce(Communicator &comm, int64_t bytes,
                                            int group = kWorldGroup);

/// The groups that communicate between hosts when mesh axes lie on their
/// levels: the first rank of each host, the second of each, and so on. `hosts`
/// has one name per rank. Empty if the only group is the world, or if hosts
/// have different numbers of ranks.
std::vector<std::vector<int>>
peersAcrossHosts(const std::vector<std::string> &hosts);

/// Formats the samples like NVIDIA's nccl-tests, so that one reader handles
/// both. `hosts` names each rank's machine. `groups` lists the ranks that were
/// measured at once; empty: all of them together.
std::string formatAllReduce(const std::vector<CollectiveSample> &samples,
                            const std::vector<std::string> &hosts,
                            const std::vector<std::vector<int>> &groups = {});

} // namespace dpc::rt

#endif // DPC_RUNTIME_COMM_MEASURECOLLECTIVES_H
