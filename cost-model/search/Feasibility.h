//===- Feasibility.h - Whether a plan fits the memory -----------*- C++ -*-===//
#ifndef DPC_COST_MODEL_SEARCH_FEASIBILITY_H
#define DPC_COST_MODEL_SEARCH_FEASIBILITY_H

#include "cost-model/machine/Cluster.h"
#include "cost-model/search/Evaluation.h"

namespace dpc::cost {

/// Decides whether plans fit the memory of a cluster. No other code decides
/// this. A plan fits when
///   * its fullest device has at most `limitOf(evaluation)` bytes in use, and
///   * the ranks of a node together offload at most the node's host memory.
/// If the devices' memory is part of the host's memory, offloaded bytes count
/// as bytes of the device instead.
class Feasibility {
public:
  /// `cluster` outlives this.
  explicit Feasibility(const Cluster &cluster)
      : cluster(cluster), mostBytes(cluster.mostUsableBytes()) {}

  /// The bytes that the largest device has for a plan.
  double limitBytes() const { return mostBytes; }
  /// The bytes that the fullest device of `evaluation` has for a plan.
  double limitOf(const Evaluation &evaluation) const {
    return evaluation.memoryLimitBytes > 0 ? evaluation.memoryLimitBytes
                                           : mostBytes;
  }
  /// The bytes by which `evaluation` exceeds the memory of its fullest device
  /// and of that device's host, added up; 0 if the plan fits.
  double excessBytes(const Evaluation &evaluation) const;
  bool fits(const Evaluation &evaluation) const {
    return excessBytes(evaluation) == 0;
  }

private:
  const Cluster &cluster;
  double mostBytes;
};

} // namespace dpc::cost

#endif // DPC_COST_MODEL_SEARCH_FEASIBILITY_H
