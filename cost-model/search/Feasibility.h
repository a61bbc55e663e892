//===- Feasibility.h - Whether a plan fits the memory -----------*- C++ -*-===//
#pragma once

#include "cost-model/machine/Cluster.h"
#include "cost-model/search/Evaluation.h"

namespace dpc::cost {

/// Decides whether plans fit the memory of a cluster. A plan fits when its
/// fullest device uses at most `limitOf(evaluation)` bytes, and the ranks of a
/// node together offload at most the node's host memory. If host and devices
/// share their memory, offloaded bytes count as bytes of the device instead.
class Feasibility {
public:
  /// `cluster` outlives this.
  explicit Feasibility(const Cluster &cluster)
      : cluster(cluster), mostBytes(cluster.mostUsableBytes()) {}

  /// Returns the usable bytes of the largest device.
  double limitBytes() const { return mostBytes; }
  /// Returns the usable bytes of the fullest device of `evaluation`.
  double limitOf(const Evaluation &evaluation) const {
    return evaluation.memoryLimitBytes > 0 ? evaluation.memoryLimitBytes
                                           : mostBytes;
  }
  /// Returns the bytes by which `evaluation` exceeds the memory of its fullest
  /// device, plus the bytes by which it exceeds the memory of this device's
  /// host; 0 if the plan fits.
  double excessBytes(const Evaluation &evaluation) const;
  bool fits(const Evaluation &evaluation) const {
    return excessBytes(evaluation) == 0;
  }

private:
  const Cluster &cluster;
  double mostBytes;
};

} // namespace dpc::cost
