//===- MeasureCollectives.h - measured times of collectives -----*- C++ -*-===//
#pragma once

#include "runtime/comm/Communicator.h"

namespace dpc::rt {

/// How long an all_reduce of f32 takes in the world, or in several groups at
/// the same time.
struct CollectiveSample {
  int64_t bytes = 0;  ///< per rank
  double seconds = 0; ///< on the slowest rank; median over the runs
};

/// Measures an all_reduce of `bytes` per rank (a multiple of 4) in `group`. All
/// ranks call this and get the same sample.
Expected<CollectiveSample> measureAllReduce(Communicator &comm, int64_t bytes,
                                            int group = kWorldGroup);

/// Returns the groups of a mesh axis that spans hosts: group i has the i-th
/// rank of every host. `hosts` has the host of each rank. Empty if the only
/// group would be the world, or if hosts have different numbers of ranks.
std::vector<std::vector<int>>
peersAcrossHosts(const std::vector<std::string> &hosts);

/// Formats samples like the output of NVIDIA's nccl-tests, so that one parser
/// reads both. `hosts` has the host of each rank. If `groups` is empty, the
/// samples are for the world.
std::string formatAllReduce(const std::vector<CollectiveSample> &samples,
                            const std::vector<std::string> &hosts,
                            const std::vector<std::vector<int>> &groups = {});

} // namespace dpc::rt
