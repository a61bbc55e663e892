//===- MeasureCollectives.h - times of collectives --------------*- C++ -*-===//
#ifndef DPC_RUNTIME_COMM_MEASURECOLLECTIVES_H
#define DPC_RUNTIME_COMM_MEASURECOLLECTIVES_H

#include "runtime/comm/Communicator.h"

namespace dpc::rt {

/// An all_reduce (sum of f32) over all ranks.
struct CollectiveSample {
  int64_t bytes = 0;  ///< Of each rank's buffer.
  double seconds = 0; ///< Of the slowest rank, median of the runs.
};

/// Measures buffers of `bytes` (a multiple of 4); all ranks of `comm` call it,
/// and have the same sample.
Expected<CollectiveSample> measureAllReduce(Communicator &comm, int64_t bytes);

/// The samples in the layout that NVIDIA's nccl-tests print, so that one reader
/// knows both. `hosts` names each rank's machine.
std::string formatAllReduce(const std::vector<CollectiveSample> &samples,
                            const std::vector<std::string> &hosts);

} // namespace dpc::rt

#endif // DPC_RUNTIME_COMM_MEASURECOLLECTIVES_H
